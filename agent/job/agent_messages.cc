#include "agent/job/agent_messages.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace muster::agent::inline job {
namespace {

std::int64_t to_ns(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

v1::AgentMessage message_of(const RankStarted& started) {
  v1::AgentMessage message;
  v1::RankStarted& body = *message.mutable_rank_started();
  body.set_rank(started.rank);
  body.set_pid(started.pid);
  body.set_pid_inside(started.pid_inside);
  body.set_agent_ns(to_ns(started.at));
  return message;
}

v1::AgentMessage message_of(const RankStartFailed& failed, base::MonotonicTime now) {
  v1::AgentMessage message;
  v1::RankStartFailed& body = *message.mutable_rank_start_failed();
  body.set_rank(failed.rank);
  body.set_exit_code(failed.exit_code);
  body.set_message(failed.message);
  body.set_agent_ns(to_ns(now));
  body.set_stopped_by_us(failed.errno_value == ECANCELED);
  return message;
}

v1::AgentMessage message_of(const RankExited& exited) {
  v1::AgentMessage message;
  v1::RankExited& body = *message.mutable_rank_exited();
  body.set_rank(exited.rank);
  body.set_pid(exited.pid);
  body.set_pid_inside(exited.pid_inside);
  body.set_wait_status(exited.wait_status);
  body.set_stopped_by_us(exited.signalled_by_us);
  body.set_out_of_memory(exited.oom_killed);
  body.set_agent_ns(to_ns(exited.at));
  return message;
}

v1::AgentMessage notice_message(const std::string& text) {
  v1::AgentMessage message;
  message.mutable_notice()->set_text(text);
  return message;
}

v1::AgentMessage stderr_tail_message(int rank, const std::string& text) {
  v1::AgentMessage message;
  message.mutable_rank_stderr_tail()->set_rank(rank);
  message.mutable_rank_stderr_tail()->set_text(text);
  return message;
}

v1::AgentMessage error_file_message(int rank, const std::string& content) {
  v1::AgentMessage message;
  message.mutable_rank_error_file()->set_rank(rank);
  message.mutable_rank_error_file()->set_content(content);
  return message;
}

v1::HostEmpty host_empty_of(const JobEmpty& empty, const std::string& failure) {
  v1::HostEmpty body;
  body.set_failure(failure);
  for (const Leftover& leftover : empty.killed) {
    v1::Leftover& to = *body.add_killed();
    to.set_pid(leftover.pid);
    to.set_command(leftover.command);
    to.set_reason(leftover.why);
  }
  for (const Unkillable& stuck : empty.stuck) {
    v1::Leftover& to = *body.add_stuck();
    to.set_pid(stuck.pid);
    to.set_command(stuck.command);
    to.set_reason(fmt::format("state {}, waits in {}", stuck.state, stuck.wchan.empty() ? "?" : stuck.wchan));
  }
  return body;
}

v1::AgentMessage pong_of(const v1::Ping& ping, base::MonotonicTime now) {
  v1::AgentMessage message;
  message.mutable_pong()->set_launcher_ns(ping.launcher_ns());
  message.mutable_pong()->set_agent_ns(to_ns(now));
  return message;
}

bool is_history(const v1::AgentMessage& message) {
  switch (message.body_case()) {
    case v1::AgentMessage::kJobOpened:
    case v1::AgentMessage::kPrepared:
    case v1::AgentMessage::kLaunched:
    case v1::AgentMessage::kRankStarted:
    case v1::AgentMessage::kRankStartFailed:
    case v1::AgentMessage::kRankExited:
    case v1::AgentMessage::kRanksStarted:
    case v1::AgentMessage::kRanksExited:
    case v1::AgentMessage::kRankStderrTail:
    case v1::AgentMessage::kNotice:
    case v1::AgentMessage::kFollowEnds:
    case v1::AgentMessage::kProgress:
    case v1::AgentMessage::kRankWorld:
    case v1::AgentMessage::kHostEmpty:
      return true;
    default:
      return false;
  }
}

void add_to_history(v1::AgentMessage message, std::vector<v1::AgentMessage>& history) {
  if (message.has_rank_world()) {
    std::erase_if(history, [&world = message.rank_world()](const v1::AgentMessage& old) {
      return old.has_rank_world() && old.rank_world().rank() == world.rank() &&
             old.rank_world().source() == world.source();
    });
  }
  history.push_back(std::move(message));
}

}  // namespace muster::agent::job
