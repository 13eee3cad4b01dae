// Asks for a mail to each address, once however often it is run.
import { Client } from "daybook-client";

const client = new Client(); // DAYBOOK_SERVER and DAYBOOK_TOKEN, or this machine
for (const address of process.argv.slice(2)) {
  const job = { queue: "letters", kind: "welcome", args: { to: address }, key: `letter:${address}` };
  const receipt = await client.enqueue(job);
  console.log(receipt.id, receipt.replayed ? "again" : "new", address);
}
