import { useRef } from "preact/hooks";
import type { ClientsAnswer } from "../../src/operations/answers.ts";
import { DataTable } from "../components/data-table.tsx";
import { Bar, Blank, Section, When } from "../components/parts.tsx";
import { NOTHING, sayNumber } from "../format.ts";
import { usePoll } from "../polling.ts";
import { formatRoute } from "../route.ts";
import { store } from "../store.ts";
import { now } from "../time.ts";
import { sayDuration } from "../../src/words/quantity.ts";
import { type Sighting, clientUse, type Use } from "../client-use.ts";

type Client = ClientsAnswer["clients"][number];
type Tier = ClientsAnswer["tiers"][string];

/** What each client used, against what its tier lets it have. */
export function ClientsPage() {
  const { value, uses, problem } = useClients();
  if (value === undefined) return <Blank problem={problem}>Asking the gateway…</Blank>;
  if (Object.keys(value.tiers).length === 0) {
    return (
      <Blank>
        Not configured: everybody may call, without limits. The key clients of the configuration changes that.
      </Blank>
    );
  }
  return (
    <>
      <Section title="Who called">
        <DataTable
          caption="Clients"
          rows={value.clients}
          keyOf={keyOf}
          textOf={({ name, kind, tier, refusals }) => `${name} ${kind} ${tier} ${Object.keys(refusals).join(" ")}`}
          empty="No client yet."
          columns={[
            {
              title: "Client",
              cell: ({ name }) => <a href={formatRoute({ page: "requests", query: { client: name } })}>{name}</a>,
              sort: ({ name }) => name,
            },
            { title: "Known by", cell: ({ kind }) => kind, sort: ({ kind }) => kind },
            { title: "Tier", cell: ({ tier }) => tier, sort: ({ tier }) => tier },
            {
              title: "Use of its tier",
              metric: "registry_gateway_client_requests_total",
              cell: (client) => <UseBar use={uses.get(keyOf(client))} />,
              sort: (client) => uses.get(keyOf(client))?.share ?? -1,
            },
            {
              title: "Requests",
              isNumber: true,
              metric: "registry_gateway_client_requests_total",
              cell: ({ requests }) => sayNumber(requests),
              sort: ({ requests }) => requests,
            },
            {
              title: "Refused",
              isNumber: true,
              metric: "registry_gateway_client_refusals_total",
              cell: ({ refusals }) => sayNumber(sum(refusals)),
              sort: ({ refusals }) => sum(refusals),
            },
            {
              title: "Why",
              metric: "registry_gateway_client_refusals_total",
              cell: ({ refusals }) => sayRefusals(refusals),
            },
            {
              title: "Last seen",
              cell: ({ lastSeen }) => <When at={lastSeen} />,
              sort: ({ lastSeen }) => lastSeen ?? "",
            },
            { title: "Keys end", cell: ({ keys }) => <KeyEnds keys={keys} /> },
          ]}
        />
      </Section>
      <Tiers tiers={value.tiers} />
    </>
  );
}

function keyOf({ kind, name }: Client): string {
  return `${kind} ${name}`;
}

/** With what each client used between two answers. */
function useClients() {
  const before = useRef<Sighting | undefined>(undefined);
  const uses = useRef<ReadonlyMap<string, Use>>(new Map());
  const { value, problem } = usePoll<ClientsAnswer>({
    every: 5_000,
    load: async (signal) => {
      const answer = await store.ask<ClientsAnswer>("clients", { signal });
      const seen = { at: now(), requests: new Map(answer.clients.map((client) => [keyOf(client), client.requests])) };
      uses.current = new Map(
        answer.clients.map((client) => [
          keyOf(client),
          clientUse(keyOf(client), answer.tiers[client.tier], before.current, seen),
        ]),
      );
      before.current = seen;
      return answer;
    },
  });
  return { value, uses: uses.current, problem };
}

function UseBar({ use }: { readonly use: Use | undefined }) {
  if (use === undefined) return <>{NOTHING}</>;
  if (use.share === undefined) return <>{use.text}</>;
  return <Bar share={use.share} label={use.text} tone={use.share >= 1 ? "bad" : use.share > 0.8 ? "warn" : "good"} />;
}

function sum(refusals: Client["refusals"]): number {
  return Object.values(refusals).reduce((total, count) => total + count, 0);
}

function sayRefusals(refusals: Client["refusals"]): string {
  const text = Object.entries(refusals).map(([code, count]) => `${code} ${sayNumber(count)}`);
  return text.length === 0 ? NOTHING : text.join(", ");
}

function KeyEnds({ keys }: { readonly keys: Client["keys"] | undefined }) {
  if (keys === undefined || keys.length === 0) return <>{NOTHING}</>;
  const ends = keys.flatMap((end) => (end === null ? [] : [end])).toSorted();
  return ends.length === 0 ? <>never</> : <When at={ends[0]!} />;
}

function Tiers({ tiers }: Pick<ClientsAnswer, "tiers">) {
  return (
    <Section title="Tiers">
      <DataTable
        caption="Tiers"
        rows={Object.entries(tiers)}
        keyOf={([name]) => name}
        empty="No tier is configured."
        columns={[
          { title: "Tier", cell: ([name]) => name, sort: ([name]) => name },
          { title: "Limits", cell: ([, tier]) => <code>{sayTier(tier)}</code> },
        ]}
      />
    </Section>
  );
}

/** `per` as a file says it. */
function inWords(key: string, value: unknown): unknown {
  return key === "per" && typeof value === "number" ? sayDuration(value) : value;
}

function sayTier(tier: Tier): string {
  return Object.entries(tier)
    .map(([key, value]) => `${key}: ${JSON.stringify(inWords(key, value), inWords)}`)
    .join(", ")
    .replaceAll('"', "");
}
