// pg-boss, with the settings with which it was fastest: four workers that take
// a thousand each. They look twice a second; it has no shorter interval.
import PgBoss from "pg-boss";
import pg from "pg";
import { inBulk, main, queue } from "./common.mjs";

const workers = 4;

main(async ({ place, step }) => {
  const works = step === "work" || step === "latency";
  const boss = new PgBoss({ connectionString: place, max: 10, supervise: works, schedule: false });
  boss.on("error", (err) => { throw err; });
  await boss.start();
  const pool = new pg.Pool({ connectionString: place, max: 1 });
  return {
    migrate: () => boss.createQueue(queue),
    enqueue: (args) => boss.send(queue, args),
    enqueueMany: (n, args) =>
      inBulk(n, (size) => boss.insert(Array.from({ length: size }, () => ({ name: queue, data: args })))),
    run: async (handle) => {
      for (let i = 0; i < workers; i++) {
        await boss.work(queue, { batchSize: 1000, pollingIntervalSeconds: 0.5 }, async (jobs) => {
          for (const job of jobs) handle(job.data);
        });
      }
    },
    left: async () => Number((await pool.query(
      "SELECT count(*) FROM pgboss.job WHERE name = $1 AND state <> 'completed'", [queue])).rows[0].count),
  };
});
