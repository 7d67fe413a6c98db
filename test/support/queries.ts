/** What a dashboard's panel asks, with the variables filled in. */
export interface DashboardQuery {
  readonly title: string;
  readonly expr: string;
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

/** All queries of the panels of a dashboard, for everything that is scraped. */
export function dashboardQueries(json: string): DashboardQuery[] {
  const { panels } = JSON.parse(json) as { panels: readonly Panel[] };
  return panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr: fill(expr) })));
}

function fill(expr: string): string {
  return expr.replaceAll(/\$(job|instance|upstream)\b/g, ".*").replaceAll("$__rate_interval", "15s");
}
