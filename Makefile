help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14
fmt: ## format the code
	gofmt -w .
vet: ## look for mistakes that compile
	go vet ./...
test: ## run all tests
	go test ./...
race: ## run all tests with the race detector; needs a C compiler
	go test -race ./...
conform: ## hold the SQLite store to the conformance suite
	go test -count=1 -run TestStore ./store/sqlite
postgres: ## install a PostgreSQL for the tests: make postgres VERSION=18; needs npm
	internal/pgtest/install.sh $(or $(VERSION),18)
test-matrix: ## the PostgreSQL store on 15 to 18, in every isolation, mode and through PgBouncer
	internal/pgtest/matrix.sh
gen: ## write the generated pages and pictures anew
	go test ./internal/tidy -rewrite && go test ./cmd/daybook -run TestMetricsList -rewrite
demo: ## run the demo: kills, pauses and redeliveries, then the verdict
	go run ./cmd/daybook demo
mutate: ## take guards out one at a time; a test must fail for each
	go run ./internal/mutate
bench: ## measure on SQLite beside the bare driver and River
	go -C bench run . -sqlite
peers: ## measure on PostgreSQL beside the raw limit and six other systems
	go -C bench run .
pressure: ## measure Daybook on PostgreSQL under five pressures, each beside the same without; takes half an hour
	go -C bench run . -pressure
bench-console: ## measure the console's pages beside five million finished jobs, and what watching costs workers
	go -C bench run . -console
shots: ## make the pictures of docs/console.md anew; needs Chromium
	DAYBOOK_TEST_BROWSER=1 DAYBOOK_SHOTS=../docs/console go test -count=1 -run TestShots ./console
bench-bells: ## measure what each bell costs enqueuers, how soon jobs start, how many it wakes
	go -C bench run . -bells
memory: ## peak memory of a large enqueue beside a small one
	go test -count=1 -v -run Memory ./cmd/daybook
fuzz: ## fuzz each input for half a minute
	@go test -list '^Fuzz' . | grep ^Fuzz | xargs -I{} go test -run '^$$' -fuzz '^{}$$' -fuzztime 30s -fuzzminimizetime 1x .
drill-tx: ## kill a worker a thousand times inside a transaction with its completion; each entry is there once
	DAYBOOK_TEST_POSTGRES=1 DAYBOOK_TRANSFER_KILLS=$(or $(KILLS),1000) go test -count=1 -v -timeout 1h ./examples/transfer
drill-bells: ## every bell lies while 20,000 jobs a fault run; needs the servers
	DAYBOOK_TEST_POSTGRES=1 DAYBOOK_TEST_BELLS=1 DAYBOOK_DRILL_JOBS=20000 go test -count=1 -v -timeout 3h ./internal/belldrill
drill-effects: ## every policy of effects in every gap, killed and stopped, 200 times each; on DAYBOOK_DB, or SQLite in memory
	go run ./cmd/daybook drill --effects --times 200 --lanes 24 --db $(or $(DAYBOOK_DB),sqlite:$(firstword $(wildcard /dev/shm) .)/drill.db)
drill-matrix: ## ten drills of a minute and one of five on SQLite, on PostgreSQL with each bell, behind PgBouncer; hours
	go run ./internal/drillmatrix $(if $(ON),-on $(ON)) $(if $(SEEDS),-seeds $(SEEDS)) $(if $(LONG),-long $(LONG))
test-cutover: ## move 1,500 jobs out of each old system, real workers there, movers killed; needs their packages
	cutover/e2e/long.sh
simulate: ## ten thousand schedules of faults in virtual time, from a seed on: make simulate SEED=1
	DAYBOOK_SCHEDULES=10000 DAYBOOK_SEED=$(SEED) go test -count=1 -v -timeout 1h -run TestSimulation ./internal/simulate
abuse: ## ten thousand wrong calls of the HTTP API, drawn from what it says of itself: make abuse SEED=1; CALL=N is that one alone
	DAYBOOK_ABUSE=$(or $(CALLS),10000) go test -count=1 -v -timeout 1h -run 'TestAbuse|TestOnPostgres/Abuse' ./httpapi -args -abuse.seed $(or $(SEED),1) -abuse.call $(or $(CALL),-1)
