# What Sidekiq's processes run in tests. A job that is done appends its jid to
# RUN_LOG, in one write.
require "sidekiq"

RELIABLE = ENV["FETCH"] == "reliable"
require "sidekiq-reliable-fetch" if RELIABLE

Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }
Sidekiq.configure_server do |config|
  config.redis = { url: ENV.fetch("REDIS_URL") }
  Sidekiq::ReliableFetch.setup_reliable_fetch!(config) if RELIABLE
end

class MailJob
  include Sidekiq::Worker
  sidekiq_options queue: "mail", retry: 5

  def perform(n, what)
    raise "boom" if what == "fail"
    sleep 600 if what == "hang"
    sleep 0.01
    File.open(ENV.fetch("RUN_LOG"), "a") { |f| f.syswrite("#{jid}\n") }
  end
end
