# Enqueues jobs as it reads lines of JID STATE from its input, and answers each
# with a line: waiting now, later in a day, failing to be retried or to be dead.
require_relative "jobs"

$stdout.sync = true
$stdin.each_line do |line|
  jid, what = line.split
  job = { "class" => "MailJob", "queue" => "mail", "jid" => jid, "args" => [1, "ok"], "retry" => 5 }
  case what
  when "later" then job["at"] = Time.now.to_f + 86_400
  when "retrying" then job["args"] = [1, "fail"]
  when "dead" then job.update("args" => [1, "fail"], "retry" => 0)
  when "hang" then job["args"] = [1, "hang"]
  end
  Sidekiq::Client.push(job)
  puts jid
end
