# Producer and worker of a Sidekiq queue: the job writes how far it came into the
# file RUNS. As a script it produces the orders of standard input, one [number,
# how, seconds] a line.
require 'json'
require 'sidekiq'
Sidekiq.configure_client { |c| c.redis = { url: ENV.fetch('OLD_URL') } }
Sidekiq.configure_server { |c| c.redis = { url: ENV.fetch('OLD_URL') } }

class MailJob
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', retry: 5

  def say(what, number)
    File.open(ENV.fetch('RUNS'), 'a') { |f| f.syswrite("#{what} #{number}\n") }
  end

  def perform(number, how)
    say('start', number)
    sleep(how == 'slow' ? 600 : ENV.fetch('WORK').to_f)
    sleep(0.1) until how != 'late' || File.exist?("#{ENV.fetch('RUNS')}.go")
    raise 'boom' if how == 'fail'

    say('done', number)
  end
end

if $PROGRAM_NAME == __FILE__
  $stdin.each_line do |line|
    number, how, seconds = JSON.parse(line)
    if how.start_with?('id=')
      Sidekiq::Client.push('class' => MailJob, 'args' => [number, how], 'jid' => how.delete_prefix('id='))
    elsif seconds.positive?
      MailJob.perform_in(seconds, number, how)
    else
      MailJob.perform_async(number, how)
    end
  end
end
