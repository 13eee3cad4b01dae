/**
 * JSON documents that stay what they are. A JSON number has no size, and
 * JSON.parse makes 9007199254740993 another one. Here whole numbers that a number
 * can't hold are read as bigint, and fractions as Decimal.
 */

/** A number that JavaScript has no other type for, as its text. */
export class Decimal {
  constructor(readonly text: string) {}

  /** The nearest number that JavaScript has. */
  valueOf(): number {
    return Number(this.text);
  }

  toString(): string {
    return this.text;
  }
}

/** A JSON document: its text as it came, and its value as JavaScript sees it. */
export class Json {
  constructor(readonly text: string) {}

  /** Writes a value as JSON; see stringify. */
  static of(value: unknown): Json {
    return value instanceof Json ? value : new Json(stringify(value));
  }

  /** The document read. Throws when it nests too deep to be read; the text is
   * there all the same. */
  get value(): any {
    return parse(this.text);
  }
}

/** Fields of answers that hold a user's document: kept as text. */
const documents = new Set(["args", "result", "progress"]);

/** The answers of the API are not deeper than this, outside of documents. */
const deepest = 16;

/** Reads JSON, with numbers exact: number where it has the value, else bigint or Decimal. */
export function parse(text: string): any {
  const reader = new Reader(text, false);
  return reader.whole();
}

/** Reads an answer of the API. Documents in it become Json, unread: one that can't
 * be read must not make the jobs beside it unreadable. */
export function parseAnswer(text: string): unknown {
  return new Reader(text, true).whole();
}

const space = /[ \t\r\n]*/y;
const string = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"/y;
const literal = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const mark = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]/g;

class Reader {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly answer: boolean,
  ) {}

  whole(): unknown {
    const value = this.value(0);
    this.skip();
    if (this.at !== this.text.length) throw this.wrong();
    return value;
  }

  private wrong(): SyntaxError {
    return new SyntaxError(`no JSON at ${this.at}`);
  }

  private skip(): void {
    this.match(space);
  }

  private match(token: RegExp): string | undefined {
    token.lastIndex = this.at;
    const found = token.exec(this.text);
    if (found === null) return undefined;
    this.at = token.lastIndex;
    return found[0];
  }

  private take(c: string): boolean {
    this.skip();
    if (this.text[this.at] !== c) return false;
    this.at++;
    return true;
  }

  private value(depth: number): unknown {
    this.skip();
    const c = this.text[this.at];
    if (c === "{" || c === "[") {
      if (this.answer && depth === deepest) throw new SyntaxError("the answer nests too deep");
      this.at++;
      return c === "{" ? this.object(depth + 1) : this.list(depth + 1);
    }
    if (c === '"') return this.string();
    const found = this.match(literal);
    if (found === undefined) throw this.wrong();
    return found === "true" ? true : found === "false" ? false : found === "null" ? null : number(found);
  }

  private string(): string {
    const found = this.match(string);
    if (found === undefined) throw this.wrong();
    return JSON.parse(found) as string;
  }

  private list(depth: number): unknown[] {
    const items: unknown[] = [];
    if (this.take("]")) return items;
    do items.push(this.value(depth));
    while (this.take(","));
    if (!this.take("]")) throw this.wrong();
    return items;
  }

  private object(depth: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    if (this.take("}")) return members;
    do {
      this.skip();
      const name = this.string();
      if (!this.take(":")) throw this.wrong();
      const value = this.answer && documents.has(name) ? this.document() : this.value(depth);
      // Not members[name] = value, which "__proto__" would make something else.
      Object.defineProperty(members, name, { value, writable: true, enumerable: true, configurable: true });
    } while (this.take(","));
    if (!this.take("}")) throw this.wrong();
    return members;
  }

  /** A document as its text, however deep it is. */
  private document(): Json {
    this.skip();
    const from = this.at;
    const c = this.text[from];
    if (c !== "{" && c !== "[") {
      if ((c === '"' ? this.match(string) : this.match(literal)) === undefined) throw this.wrong();
      return new Json(this.text.slice(from, this.at));
    }
    mark.lastIndex = from;
    for (let open = 0, found = mark.exec(this.text); found !== null; found = mark.exec(this.text)) {
      if (found[0] === "{" || found[0] === "[") open++;
      else if ((found[0] === "}" || found[0] === "]") && --open === 0) {
        this.at = mark.lastIndex;
        return new Json(this.text.slice(from, this.at));
      }
    }
    throw new SyntaxError("the answer ends too early");
  }
}

function number(text: string): number | bigint | Decimal {
  const near = Number(text);
  if (Number.isSafeInteger(near) && /^-?\d+$/.test(text) && text !== "-0") return near;
  if (/^-?\d+$/.test(text)) return text === "-0" ? -0 : BigInt(text);
  return Number.isFinite(near) && digits(String(near)) === digits(text) ? near : new Decimal(text);
}

/** One form for each number: its digits without zeros around them, and where the
 * point is. */
function digits(text: string): string {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const [, sign = "", whole = "", fraction = "", power = "0"] = parts;
  const all = (whole + fraction).replace(/^0+/, "");
  const bare = all.replace(/0+$/, "");
  if (bare === "") return sign + "0";
  return `${sign}${bare}e${BigInt(power) - BigInt(fraction.length) + BigInt(all.length - bare.length)}`;
}

/** Writes JSON without spaces. bigint, Decimal and Json keep their value; toJSON,
 * undefined and the rest are as in JSON.stringify. Throws TypeError for what JSON
 * has no form for: NaN, functions, lone surrogates, circles. */
export function stringify(value: unknown): string {
  const text = write(value, "", []);
  if (text === undefined) throw new TypeError(`JSON has no form for ${typeof value}`);
  return text;
}

function write(value: unknown, key: string, inside: unknown[]): string | undefined {
  if (value instanceof Json) return value.text;
  if (value instanceof Decimal) return value.text;
  if (typeof value === "bigint") return value.toString();
  if (value !== null && typeof value === "object" && "toJSON" in value && typeof value.toJSON === "function") {
    value = value.toJSON(key);
  }
  switch (typeof value) {
    case "string":
      if (!wellFormed(value)) throw new TypeError("a string has a lone surrogate, which is no unicode");
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`JSON has no form for ${value}`);
      return Object.is(value, -0) ? "-0" : String(value);
    case "boolean":
      return String(value);
    case "undefined":
      return undefined;
    case "object":
      break;
    default:
      throw new TypeError(`JSON has no form for a ${typeof value}`);
  }
  if (value === null) return "null";
  if (inside.includes(value)) throw new TypeError("the value contains itself");
  const within = [...inside, value];
  if (Array.isArray(value)) return `[${value.map((item) => write(item, "", within) ?? "null").join()}]`;
  const members: string[] = [];
  for (const [name, item] of Object.entries(value)) {
    const text = write(item, name, within);
    if (text !== undefined) members.push(`${write(name, "", [])}:${text}`);
  }
  return `{${members.join()}}`;
}

function wellFormed(text: string): boolean {
  return !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text);
}
