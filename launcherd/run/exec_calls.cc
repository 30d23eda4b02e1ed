#include "launcherd/run/exec_calls.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/exit_code.h"
#include "proto/input_window.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {
namespace {

constexpr int kSignalled = 128;  // a shell's exit code for a signal, without the signal's number

v1::ExecEnd end_of(const v1::ExecEnded& message, const std::string& host) {
  v1::ExecEnd end;
  if (message.not_started()) {
    const bool is_known = message.exit_code() > 0 && message.exit_code() < kSignalled;
    end.set_exit_code(is_known ? message.exit_code() : static_cast<int>(model::kMusterFailed));
  } else if (WIFEXITED(message.wait_status())) {
    end.set_exit_code(WEXITSTATUS(message.wait_status()));
  } else {
    const int signal = WIFSIGNALED(message.wait_status()) ? WTERMSIG(message.wait_status()) : SIGKILL;
    end.set_signal(signal);
    end.set_exit_code(kSignalled + signal);
  }
  const std::string why = base::printable(message.message());
  // Other messages are about the rank or the job.
  end.set_message(message.not_started() ? fmt::format("{}: {}", host, why) : why);
  return end;
}

}  // namespace

base::Result<ExecControls> ExecCalls::begin(const Target& target, const v1::ExecRequest& first, ExecCaller caller) {
  if (calls_.size() >= kMost) {
    return base::resource_exhausted("{} commands already run in this job: end one of them", kMost);
  }
  const std::uint64_t id = next_id_++;
  Call& call = calls_[id];
  call.target = target;
  call.caller = std::move(caller);
  call.patience = loop_.after(kPatience, [this, id] {
    fail(id, base::deadline_exceeded("{} has not answered within {} s: is its agent of an older build?",
                                     calls_.at(id).target.host, kPatience.count()));
  });
  v1::LauncherMessage message;
  v1::ExecOrder& order = *message.mutable_exec_order();
  order.set_id(id);
  order.set_rank(target.number);
  *order.mutable_command() = first.command();
  order.set_shell(first.shell());
  order.set_terminal(first.terminal());
  order.set_term(first.term());
  if (first.has_window_size()) *order.mutable_window_size() = first.window_size();
  send_(target.agent, std::move(message));
  v1::ExecRequest rest = first;
  rest.clear_window_size();
  pass_on(id, call, rest);
  return ExecControls{.next = gate_.wrap([this, id](const v1::ExecRequest& request) { more(id, request); }),
                      .gone = gate_.wrap([this, id] { leave(id); })};
}

ExecCalls::Call* ExecCalls::find(std::uint64_t id, int agent) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.target.agent != agent) return nullptr;
  return &found->second;
}

void ExecCalls::more(std::uint64_t id, const v1::ExecRequest& request) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  if (request.input().size() > proto::kInputWindow - found->second.input_ahead) {
    return fail(id, base::resource_exhausted("input: more than {} bytes ahead of the command: wait for input_taken",
                                             proto::kInputWindow));
  }
  pass_on(id, found->second, request);
}

void ExecCalls::pass_on(std::uint64_t id, Call& call, const v1::ExecRequest& request) {
  if (call.is_input_closed) {
    report_taken(call, request.input().size());
  } else if (!request.input().empty() || request.end_of_input()) {
    call.input_ahead += request.input().size();
    v1::LauncherMessage message;
    message.mutable_exec_input()->set_id(id);
    message.mutable_exec_input()->set_data(request.input());
    message.mutable_exec_input()->set_eof(request.end_of_input());
    send_(call.target.agent, std::move(message));
  }
  if (!request.has_window_size() && request.signal() == 0) return;
  v1::LauncherMessage message;
  message.mutable_exec_control()->set_id(id);
  message.mutable_exec_control()->set_signal(request.signal());
  if (request.has_window_size()) *message.mutable_exec_control()->mutable_window_size() = request.window_size();
  send_(call.target.agent, std::move(message));
}

void ExecCalls::leave(std::uint64_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const int agent = found->second.target.agent;
  calls_.erase(found);
  order_end(id, agent);
}

void ExecCalls::order_end(std::uint64_t id, int agent) {
  v1::LauncherMessage message;
  message.mutable_exec_control()->set_id(id);
  message.mutable_exec_control()->set_end(true);
  send_(agent, std::move(message));
}

void ExecCalls::started(int agent, const v1::ExecStarted& message) {
  Call* const call = find(message.id(), agent);
  if (call == nullptr) return;
  call->patience.cancel();
  v1::ExecEvent event;
  event.mutable_begun()->set_rank(call->target.rank);
  event.mutable_begun()->set_host(call->target.host);
  event.mutable_begun()->set_pid(message.pid());
  call->caller.send(std::move(event));
}

void ExecCalls::output(int agent, const v1::ExecOutput& message) {
  Call* const call = find(message.id(), agent);
  if (call == nullptr || message.data().empty()) return;
  if (message.data().size() > proto::kExecWindow - call->output_ahead) {
    return fail(message.id(), base::internal_error("{}: its agent sends more output than it may", call->target.host));
  }
  call->output_ahead += message.data().size();
  v1::ExecEvent event;
  (message.is_stderr() ? event.mutable_error_output() : event.mutable_output())->assign(message.data());
  call->caller.send(std::move(event));
  if (std::exchange(call->awaits_writing, true)) return;
  call->caller.when_written(gate_.wrap([this, id = message.id()] { confirm_output(id); }));
}

void ExecCalls::confirm_output(std::uint64_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  call.awaits_writing = false;
  v1::LauncherMessage message;
  message.mutable_exec_control()->set_id(id);
  message.mutable_exec_control()->set_output_taken(std::exchange(call.output_ahead, 0));
  send_(call.target.agent, std::move(message));
}

void ExecCalls::input_taken(int agent, const v1::ExecInputTaken& message) {
  Call* const call = find(message.id(), agent);
  if (call == nullptr) return;
  // If the command has closed its stdin, all input counts as taken, so that the caller need not wait for room.
  const std::size_t bytes =
      message.closed() ? call->input_ahead : std::min<std::size_t>(message.bytes(), call->input_ahead);
  call->input_ahead -= bytes;
  call->is_input_closed = call->is_input_closed || message.closed();
  report_taken(*call, bytes);
}

void ExecCalls::report_taken(const Call& call, std::size_t bytes) {
  if (bytes == 0) return;
  v1::ExecEvent event;
  event.set_input_taken(bytes);
  call.caller.send(std::move(event));
}

void ExecCalls::ended(int agent, const v1::ExecEnded& message) {
  const Call* const call = find(message.id(), agent);
  if (call == nullptr) return;
  end(message.id(), end_of(message, call->target.host));
}

void ExecCalls::rank_over(int number, const std::string& how) {
  for (auto& [id, call] : calls_) {
    if (call.target.number == number && call.why.empty()) {
      call.why = fmt::format("rank {} ended ({}) while the command ran", call.target.rank, how);
    }
  }
}

void ExecCalls::lost(int agent) {
  std::vector<std::uint64_t> with_it;
  for (const auto& [id, call] : calls_) {
    if (call.target.agent == agent) with_it.push_back(id);
  }
  for (const std::uint64_t id : with_it) {
    end_with(id, fmt::format("{} was lost while the command ran", calls_.at(id).target.host));
  }
}

void ExecCalls::close() {
  while (!calls_.empty()) {
    const auto& [id, call] = *calls_.begin();
    order_end(id, call.target.agent);
    // The agent reports an end only after all output, so the command may have ended by itself.
    if (call.output_ahead > 0) {
      end_with(id, "the job ended before all output of the command had arrived");
    } else {
      end_with(id, call.why.empty() ? "the job ended while the command ran" : call.why);
    }
  }
}

void ExecCalls::end(std::uint64_t id, v1::ExecEnd end) {
  const auto found = calls_.find(id);
  const ExecCaller caller = std::move(found->second.caller);
  calls_.erase(found);
  v1::ExecEvent event;
  *event.mutable_ended() = std::move(end);
  caller.send(std::move(event));
  caller.done(base::ok_status());
}

// For a command of which the agent reports nothing more.
void ExecCalls::end_with(std::uint64_t id, const std::string& message) {
  v1::ExecEnd last;
  last.set_signal(SIGKILL);
  last.set_exit_code(kSignalled + SIGKILL);
  last.set_message(message);
  end(id, std::move(last));
}

// The agent must end the command, because the caller cannot go on.
void ExecCalls::fail(std::uint64_t id, const base::Status& status) {
  const ExecCaller caller = std::move(calls_.at(id).caller);
  leave(id);
  caller.done(status);
}

}  // namespace muster::launcherd::run
