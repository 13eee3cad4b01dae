# The programs of docs/cutover/sidekiq.md: what stands between "guide:" and "guide: end"
# is in the guide word for word. As a script it is a producer, told by its argument how
# to put one job in: old, deploy or double. Sidekiq loads it as a worker.
require 'connection_pool'
require 'json'
require 'pg'
require 'securerandom'
require 'sidekiq'
Sidekiq.configure_client { |c| c.redis = { url: ENV.fetch('OLD_URL') } }
Sidekiq.configure_server { |c| c.redis = { url: ENV.fetch('WORKER_URL') } }
DB = ConnectionPool.new(size: 3) { PG.connect(ENV.fetch('DATABASE_URL')) }

class WelcomeJob
  include Sidekiq::Worker
  sidekiq_options queue: 'mail'

  def perform(_user)
    File.open(ENV.fetch('RUNS'), 'a') { |f| f.syswrite("#{jid}\n") }
  end
end

def old
  WelcomeJob.perform_async(7)
end

def deploy
  # guide: Switched by deploy
  # was: WelcomeJob.perform_async(7)
  DB.with do |db|
    db.exec_params("SELECT daybook.enqueue(queue => 'mail', kind => 'welcome', args => $1)", [JSON.dump([7])])
  end
  # guide: end
end

def double
  # guide: Written to both
  jid = SecureRandom.hex(12)
  DB.with do |db|
    db.exec_params("SELECT daybook.enqueue(queue => 'mail', kind => 'welcome', args => $1, key => $2)",
                   [JSON.dump([7]), jid])
  end
  Sidekiq::Client.push('class' => WelcomeJob, 'args' => [7], 'jid' => jid)
  # guide: end
end

# guide: Old handlers that still may start
class AskTheBook
  def call(_worker, job, _queue)
    ours = DB.with { |db| db.exec_params(<<~SQL, [job['jid']]) }.ntuples.positive?
      SELECT FROM daybook.cutover_item WHERE cutover = 'mail' AND id = $1
        AND term NOT IN ('still', 'finished', 'returned')
    SQL
    yield unless ours # the book has it
  end
end
Sidekiq.configure_server { |c| c.server_middleware { |chain| chain.add AskTheBook } }
# guide: end

send(ARGV.fetch(0)) if $PROGRAM_NAME == __FILE__
