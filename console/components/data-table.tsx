import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { sayCount } from "../../src/words/quantity.ts";
import { MetricLink } from "./metric-link.tsx";
import { Scroll } from "./scroll.tsx";

export interface Column<Row> {
  readonly title: string;
  /** Right-aligned, so that digits stand below each other. */
  readonly isNumber?: boolean;
  /** That shows the same over time. */
  readonly metric?: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** What it is sorted by; undefined: it is not. */
  readonly sort?: (row: Row) => number | string;
}

interface DataTableProps<Row> {
  /** What the table is, for those who do not see it. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The text in which what is typed is looked for; undefined: no field to type it. */
  readonly textOf?: (row: Row) => string;
  readonly empty: ComponentChildren;
}

/** As many as are drawn at once: a thousand rows of buttons would hold the page for seconds. */
const PAGE = 50;

interface Sorting {
  readonly column: number;
  readonly isDown: boolean;
}

/** A table that is sorted by its heads, searched, and shown in pages where it is long. */
export function DataTable<Row>({ caption, columns, rows, keyOf, textOf, empty }: DataTableProps<Row>) {
  const [wanted, setWanted] = useState("");
  const [sorting, setSorting] = useState<Sorting | undefined>();
  const [page, setPage] = useState(0);
  const found = useMemo(() => arrange(rows, { wanted, textOf, sorting, columns }), [rows, wanted, sorting, columns]);
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const at = Math.min(page, pages - 1);
  const shown = found.slice(at * PAGE, (at + 1) * PAGE);
  return (
    <>
      {textOf !== undefined && (rows.length > 8 || wanted !== "") && (
        <div class="search">
          <input
            type="search"
            placeholder="Search"
            aria-label={`Search ${caption}`}
            value={wanted}
            onInput={({ currentTarget }) => {
              setWanted(currentTarget.value);
              setPage(0);
            }}
          />
          <span role="status">{wanted === "" ? "" : `${found.length} of ${rows.length}`}</span>
        </div>
      )}
      {shown.length === 0 ? (
        <p class="blank">{rows.length === 0 ? empty : "Nothing found."}</p>
      ) : (
        <Scroll label={`${caption}, table`}>
          <table>
            <caption class="unseen">{caption}</caption>
            <thead>
              <tr>
                {columns.map((column, i) => (
                  <Head key={column.title} column={column} index={i} sorting={sorting} onSort={setSorting} />
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={keyOf(row)}>
                  {columns.map((column, i) => {
                    const look = column.isNumber === true ? "number" : undefined;
                    return i === 0 ? (
                      <th key={column.title} scope="row" class={look}>
                        {column.cell(row)}
                      </th>
                    ) : (
                      <td key={column.title} class={look}>
                        {column.cell(row)}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {pages > 1 && <Pages at={at} pages={pages} count={found.length} onTurn={setPage} caption={caption} />}
    </>
  );
}

interface HeadProps<Row> {
  readonly column: Column<Row>;
  readonly index: number;
  readonly sorting: Sorting | undefined;
  readonly onSort: (sorting: Sorting | undefined) => void;
}

function Head<Row>({ column, index, sorting, onSort }: HeadProps<Row>) {
  const isSorted = sorting?.column === index;
  const order = isSorted ? (sorting.isDown ? "descending" : "ascending") : "none";
  // Numbers begin with the largest, words with A; the third time it is as it came.
  const first = column.isNumber === true;
  const next = isSorted
    ? sorting.isDown === first
      ? { column: index, isDown: !first }
      : undefined
    : { column: index, isDown: first };
  const mark = { ascending: "▴", descending: "▾", none: "" }[order];
  return (
    <th scope="col" class={column.isNumber === true ? "number" : undefined} aria-sort={order}>
      {column.sort === undefined ? (
        column.title
      ) : (
        <button type="button" class="sort" onClick={() => onSort(next)}>
          {column.title}
          <span aria-hidden="true">{mark}</span>
        </button>
      )}
      {column.metric !== undefined && <MetricLink name={column.metric} />}
    </th>
  );
}

interface PagesProps {
  readonly at: number;
  readonly pages: number;
  readonly count: number;
  readonly caption: string;
  readonly onTurn: (page: number) => void;
}

function Pages({ at, pages, count, caption, onTurn }: PagesProps) {
  return (
    <nav class="pages" aria-label={`Pages of ${caption}`}>
      <button type="button" disabled={at === 0} onClick={() => onTurn(at - 1)}>
        Previous
      </button>
      <span>
        Page {at + 1} of {pages}, {sayCount(count, "row")}
      </span>
      <button type="button" disabled={at === pages - 1} onClick={() => onTurn(at + 1)}>
        Next
      </button>
    </nav>
  );
}

interface Arrangement<Row> {
  readonly wanted: string;
  readonly textOf: ((row: Row) => string) | undefined;
  readonly sorting: Sorting | undefined;
  readonly columns: readonly Column<Row>[];
}

function arrange<Row>(rows: readonly Row[], { wanted, textOf, sorting, columns }: Arrangement<Row>): readonly Row[] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const found =
    textOf === undefined || words.length === 0
      ? rows
      : rows.filter((row) => {
          const text = textOf(row).toLowerCase();
          return words.every((word) => text.includes(word));
        });
  const sort = sorting === undefined ? undefined : columns[sorting.column]?.sort;
  if (sorting === undefined || sort === undefined) return found;
  const direction = sorting.isDown ? -1 : 1;
  return found.toSorted((one, other) => direction * compare(sort(one), sort(other)));
}

function compare(one: number | string, other: number | string): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}
