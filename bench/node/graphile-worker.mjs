// graphile-worker, with the settings with which it was fastest: a local queue
// of 5,000, 24 handlers, completions in batches.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { inBulk, kind, main } from "./common.mjs";

const handlers = 24;
const preset = { worker: { localQueue: { size: 5000 }, completeJobBatchDelay: 0, pollInterval: 1000 } };

main(async ({ place }) => {
  const pgPool = new pg.Pool({ connectionString: place, max: handlers + 2 });
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ pgPool, logger });
  return {
    migrate: () => utils.migrate(),
    enqueue: (args) => utils.addJob(kind, args),
    enqueueMany: (n, args) =>
      inBulk(n, (size) => utils.addJobs(Array.from({ length: size }, () => ({ identifier: kind, payload: args })))),
    run: (handle) =>
      run({ pgPool, logger, preset, concurrency: handlers, noHandleSignals: true, parsedCronItems: [],
        taskList: { [kind]: async (args) => { handle(args); } } }),
    left: async () => Number((await pgPool.query("SELECT count(*) FROM graphile_worker.jobs")).rows[0].count),
  };
});
