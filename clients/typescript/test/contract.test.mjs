// The types of src/api.ts against what the server says of itself.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import ts from "typescript";
import { Server } from "./support.mjs";

const page = fileURLToPath(new URL("../src/api.ts", import.meta.url));
let server, spec;
before(async () => {
  server = await Server.start();
  spec = await (await fetch(`${server.url}/openapi.json`)).json();
});
after(() => server.close());

const kindsOf = (schema) => [schema.type ?? []].flat().filter((kind) => kind !== "null");

/** Compares the types of a source text with the description, and lists where they differ. */
class Contract {
  wrong = [];

  constructor(text) {
    const options = { strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, noEmit: true };
    const host = ts.createCompilerHost(options);
    const read = host.getSourceFile.bind(host);
    host.getSourceFile = (name, ...more) =>
      name === page ? ts.createSourceFile(page, text, ts.ScriptTarget.ES2022, true) : read(name, ...more);
    const program = ts.createProgram([page], options, host);
    this.checker = program.getTypeChecker();
    const source = program.getSourceFile(page);
    const named = this.checker.getExportsOfModule(this.checker.getSymbolAtLocation(source));
    this.exported = (name) => named.find((symbol) => symbol.name === name);
    this.source = source;
    this.routes = routesIn(source);
  }

  all() {
    const operations = this.checker.getDeclaredTypeOfSymbol(this.exported("Operations"));
    const all = operations.getProperties();
    for (const operation of all) this.operation(operation.name, this.members(this.typeOf(operation)));
    assert.deepEqual(Object.keys(this.routes).toSorted(), all.map((p) => p.name).toSorted());
    return this.wrong;
  }

  typeOf(symbol) {
    return this.checker.getTypeOfSymbolAtLocation(symbol, this.source);
  }

  members(type) {
    return Object.fromEntries(type.getProperties().map((p) => [p.name, this.typeOf(p)]));
  }

  operation(name, { body, answer, query }) {
    const { method, path } = this.routes[name];
    const there = spec.paths[path]?.[method.toLowerCase()];
    if (there?.operationId !== name) return this.wrong.push(`${name}: there is no ${method} ${path}`);
    for (const asked of query?.getProperties() ?? []) {
      const known = there.parameters.find((p) => p.in === "query" && p.name === asked.name);
      if (known === undefined) this.wrong.push(`${name}: there is no parameter ${asked.name}`);
      else this.compare(`${name}?${asked.name}`, this.checker.getNonNullableType(this.typeOf(asked)), known.schema);
    }
    const content = (of) => of?.content?.["application/json"] && (of.content["application/json"].schema ?? {});
    this.pair(`${name} body`, body, content(there.requestBody));
    const [, good] = Object.entries(there.responses).find(([status]) => status.startsWith("2"));
    this.pair(`${name} answer`, answer, content(good));
  }

  pair(at, type, schema) {
    const none = (type.flags & ts.TypeFlags.Undefined) !== 0;
    if (none !== (schema === undefined)) this.wrong.push(`${at}: one side has none`);
    else if (!none) this.compare(at, type, schema);
  }

  compare(at, type, schema) {
    while (schema.$ref) schema = spec.components.schemas[schema.$ref.split("/").at(-1)];
    const kinds = kindsOf(schema).map((kind) => (kind === "integer" ? "number" : kind));
    const said = this.checker.typeToString(type);
    if (said === "Json") {
      if (kinds.length > 0) this.wrong.push(`${at}: is ${kinds}, not any document`);
    } else if (["string", "number", "boolean"].includes(said)) {
      if (kinds.join() !== said) this.wrong.push(`${at}: is ${kinds}, not ${said}`);
    } else if (this.checker.isArrayType(type)) {
      if (kinds.join() !== "array") this.wrong.push(`${at}: is ${kinds}, not a list`);
      else this.compare(`${at}[]`, this.checker.getTypeArguments(type)[0], schema.items);
    } else this.fields(at, type, schema);
  }

  fields(at, type, schema) {
    const there = schema.properties ?? {};
    const required = schema.required ?? [];
    const here = type.getProperties();
    for (const name of required) {
      if (!here.some((p) => p.name === name)) this.wrong.push(`${at}/${name}: is required and missing here`);
    }
    for (const field of here) {
      const optional = (field.flags & ts.SymbolFlags.Optional) !== 0;
      if (!(field.name in there)) {
        this.wrong.push(`${at}/${field.name}: is made up`);
        continue;
      }
      if (optional === required.includes(field.name)) {
        this.wrong.push(`${at}/${field.name}: is required on one side only`);
      }
      this.compare(`${at}/${field.name}`, this.checker.getNonNullableType(this.typeOf(field)), there[field.name]);
    }
  }
}

/** Method and path of each call, as the source has them. */
function routesIn(source) {
  const found = {};
  for (const statement of source.statements) {
    const declared = statement.declarationList?.declarations[0];
    if (declared?.name.text !== "routes") continue;
    for (const route of declared.initializer.properties) {
      const part = (name) => route.initializer.properties.find((p) => p.name.text === name)?.initializer.text;
      found[route.name.text] = { method: part("method"), path: part("path") };
    }
  }
  return found;
}

const text = readFileSync(page, "utf8");

test("every call is as the server says", () => {
  assert.deepEqual(new Contract(text).all(), []);
});

test("what a body may hold, the client can say", () => {
  const contract = new Contract(text);
  for (const name of "JobBody ClaimBody OutcomeRow BeginBody FinishBody SettleBody Job Effect Problem".split(" ")) {
    const here = contract.checker.getDeclaredTypeOfSymbol(contract.exported(name)).getProperties();
    const there = Object.keys(spec.components.schemas[name].properties);
    assert.deepEqual(here.map((p) => p.name).toSorted(), there.toSorted(), name);
  }
});

test("this test can fail", () => {
  const wrongs = [
    ["export interface JobBody {", "export interface JobBody {\n  colour?: string;", "/colour: is made up"],
    [/(interface Receipt \{[^}]*?)replayed: boolean;/, "$1", "/replayed: is required and missing here"],
    [/(interface JobBody \{[^}]*?)queue: string;/, "$1queue?: string;", "/queue: is required on one side only"],
    [/(interface JobBody \{[^}]*?)priority\?: number;/, "$1priority?: string;", "/priority: is number, not string"],
    ['path: "/v1/claims"', 'path: "/v1/claim"', "claim: there is no POST /v1/claim"],
    [/(interface EffectQuery \{[^}]*?)open\?:/, "$1opened?:", "there is no parameter opened"],
  ];
  for (const [from, to, says] of wrongs) {
    const spoiled = text.replace(from, to);
    assert.notEqual(spoiled, text);
    const wrong = new Contract(spoiled).all();
    assert.ok(wrong.some((line) => line.includes(says)), `${says}: ${wrong}`);
  }
});
