import { type Action, type Case, type Knobs, type Mood, NAMES, STRANGER, type WorldPlan } from "./plan.ts";

/** A case as a person reads it: the world, then what happens in it, a line for all that happens at once. */
export function inWords({ world, course }: Case): string {
  const { registries, replicas, hasRedis, isGrouped, plain } = world;
  const shared = `${hasRedis ? "Redis" : "no Redis"}, plain: ${plain}${isGrouped ? ", ash and birch share a limit" : ""}`;
  return [
    `${replicas} replica(s), ${shared}`,
    ...registries.map(({ nodes, ids, hasTags, control, knobs, rate }, at) =>
      [
        `- ${NAMES[at]!}: ${nodes} node(s) with ${ids.join(" ")}`,
        ...(control.text === undefined ? [] : [`Cache-Control: ${control.text}`]),
        ...(hasTags ? ["ETags"] : []),
        ...(rate === undefined ? [] : [`${rate.requests} calls in ${rate.per} ms`]),
        knobsInWords(knobs),
      ].join(", "),
    ),
    ...course.map((actions, at) => `${at + 1}. ${actions.map((each) => actionInWords(each, world)).join(" | ")}`),
  ].join("\n");
}

function knobsInWords(knobs: Partial<Knobs>): string {
  const said = Object.entries(knobs).map(
    ([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`,
  );
  return said.join(" ");
}

function moodInWords(mood: Mood): string {
  const { kind, ...more } = mood;
  return `${kind} ${Object.values(more).join(" ")}`.trim();
}

function actionInWords(action: Action, { registries, replicas }: WorldPlan): string {
  const nameOf = (at: number): string =>
    at === -1 ? "the same" : at === STRANGER ? "nobody" : NAMES[at % registries.length]!;
  const replicaOf = (at: number): string => `replica ${at % replicas}`;
  const nodeOf = (each: { registry: number; node: number }): string =>
    `${nameOf(each.registry)} node ${each.node % registries[each.registry % registries.length]!.nodes}`;
  switch (action.kind) {
    case "ask": {
      const { operation, registry, by, also, id, size, token, copies, replica } = action;
      const page = `${size === undefined ? "" : ` pageSize ${size}`}${token === undefined ? "" : ` pageToken ${token}`}`;
      const what = operation === "instruments" ? page : operation === "instrument" ? ` ${id}` : "";
      const other = also === undefined ? "" : `, ${also.where} names ${nameOf(also.registry)}`;
      return `${copies > 1 ? `${copies} × ` : ""}ask ${replicaOf(replica)} for ${operation}${what} of ${nameOf(registry)} by ${by}${other}`;
    }
    case "wait":
      return `${action.ms} ms pass`;
    case "mood":
      return `${nodeOf(action)} is ${moodInWords(action.mood)}`;
    case "restart":
      return `${nodeOf(action)} restarts`;
    case "relist":
      return `${nameOf(action.registry)} lists ${action.ids.join(" ")}`;
    case "purge":
      return `purge ${action.registry === undefined ? "all" : nameOf(action.registry)} at ${replicaOf(action.replica)}`;
    case "reload":
      return `reload ${action.replica === undefined ? "all" : replicaOf(action.replica)} with ${nameOf(action.registry)}: ${knobsInWords(action.change)}`;
    case "redis":
      return `Redis: ${action.does}`;
  }
}
