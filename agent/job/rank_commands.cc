// The whole of RankCommands. Read order() and request_of() first, then on() and carry_out(), then the events.

#include "agent/job/rank_commands.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "agent/job/agent_messages.h"
#include "agent/job/rank_containers.h"
#include "agent/launch/login_shell.h"
#include "model/exit_code.h"
#include "proto/input_window.h"

namespace muster::agent::inline job {
namespace {

bool is_window(const v1::WindowSize& size) {
  const auto fits = [](int cells) { return cells > 0 && cells <= 0xffff; };
  return fits(size.rows()) && fits(size.columns());
}

void set_variable(const std::string& name, const std::string& value, std::vector<std::string>& entries) {
  std::erase_if(entries, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  entries.push_back(fmt::format("{}={}", name, value));
}

// Returns a Launch from which put_in_containers() can put one command of this rank into the rank's container.
std::shared_ptr<const v1::Launch> container_of(const v1::Launch& launch, int index) {
  if (!launch.has_container()) return nullptr;
  auto one = std::make_shared<v1::Launch>();
  *one->mutable_container() = launch.container();
  *one->mutable_environment() = launch.environment();
  *one->add_ranks() = launch.ranks(index);
  return one;
}

}  // namespace

void RankCommands::remember(const v1::Launch& launch, const std::vector<std::string>& names,
                            const std::vector<SpawnRequest>& requests) {
  const auto shared = std::make_shared<const std::vector<std::string>>(names);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Start start{.request = requests[i], .container = container_of(launch, static_cast<int>(i)), .names = shared};
    start.request.argv.clear();
    start.request.wants_pmi = false;  // only the rank itself speaks for the rank
    starts_.insert_or_assign(requests[i].rank, std::move(start));
  }
}

void RankCommands::order(const v1::ExecOrder& order) {
  if (commands_.size() >= kMostCommands) {
    return refuse(order.id(), fmt::format("{} commands already run in this job here: end one of them", kMostCommands));
  }
  auto request = request_of(order);
  if (!request.ok()) return refuse(order.id(), request.status().message());
  request->rank = next_number_++;
  Command& command = commands_[request->rank];
  command.id = order.id();
  command.rank = order.rank();
  command.has_terminal = order.terminal();
  const base::Status spawned = events_.spawn(*request);
  if (spawned.ok()) return;
  RankStartFailed failed;
  failed.rank = request->rank;
  failed.message = spawned.message();
  on_event(failed);
}

base::Result<SpawnRequest> RankCommands::request_of(const v1::ExecOrder& order) const {
  const auto start = starts_.find(order.rank());
  if (start == starts_.end()) {
    return base::failed_precondition("rank {} does not run: it has ended, or starts again",
                                     events_.shown(order.rank()));
  }
  SpawnRequest request = start->second.request;
  if (order.shell()) {
    request.argv = {login_shell(login_)};
  } else {
    request.argv.assign(order.command().begin(), order.command().end());
  }
  request.stdin_of = order.terminal() ? StdinOf::kTerminal : StdinOf::kPipe;
  if (order.terminal() && !order.term().empty()) set_variable("TERM", order.term(), request.env);
  if (is_window(order.window_size())) {
    request.rows = static_cast<unsigned short>(order.window_size().rows());
    request.columns = static_cast<unsigned short>(order.window_size().columns());
  }
  if (start->second.container == nullptr || request.argv.empty()) return request;
  std::vector<SpawnRequest> contained{std::move(request)};
  MUSTER_RETURN_IF_ERROR(put_in_containers(*start->second.container, *start->second.names, contained));
  return std::move(contained.front());
}

void RankCommands::refuse(std::uint64_t id, const std::string& why) {
  v1::ExecEnded ended;
  ended.set_not_started(true);
  ended.set_exit_code(model::kMusterFailed);
  ended.set_message(why);
  report(Command{.id = id}, std::move(ended));
}

void RankCommands::report(const Command& command, v1::ExecEnded ended) {
  if (!command.has_listener) return;
  ended.set_id(command.id);
  events_.send(message_with(&v1::AgentMessage::mutable_exec_ended, std::move(ended)));
}

std::pair<const int, RankCommands::Command>* RankCommands::find(std::uint64_t id) {
  const auto found = std::ranges::find_if(
      commands_, [id](const auto& each) { return each.second.id == id && each.second.has_listener; });
  return found == commands_.end() ? nullptr : &*found;
}

void RankCommands::on(int number, CommandEvent event) {
  const auto found = commands_.find(number);
  if (found == commands_.end()) return;
  Command& command = found->second;
  const auto step = next_step(command.phase, event);
  if (!step) return;
  command.phase = step->to;
  carry_out(step->action, number, command);
}

void RankCommands::carry_out(CommandAction action, int number, Command& command) {
  switch (action) {
    case CommandAction::kReportStart:
    case CommandAction::kReportFailure:  // on_event() has the message
    case CommandAction::kWait:
      return;
    case CommandAction::kAskToEnd:
      return ask_to_end(number, command);
    case CommandAction::kKill:
      // An error means that the warden is gone, and the command with it. The same holds for the other signals here.
      return (void)events_.signal(number, SIGKILL);
    case CommandAction::kDrain:
      command.overdue.cancel();
      command.input.reset();
      if (command.output == nullptr || !command.has_listener) return on(number, CommandEvent::kDrained);
      return command.output->finish();
    case CommandAction::kReportEnd: {
      v1::ExecEnded ended;
      ended.set_wait_status(command.wait_status);
      ended.set_message(command.why);
      report(command, std::move(ended));
      // Posted, because the caller may be the command's output.
      return loop_.post(gate_.wrap([this, number] { commands_.erase(number); }));
    }
  }
}

void RankCommands::ask_to_end(int number, Command& command) {
  command.input.reset();  // of a terminal, too: the command must not wait for more
  (void)events_.signal(number, SIGHUP);
  (void)events_.signal(number, SIGTERM);
  (void)events_.signal(number, SIGCONT);  // a stopped process handles no signal
  command.overdue = loop_.after(kPatience, [this, number] { on(number, CommandEvent::kOverdue); });
}

void RankCommands::end(int number, const std::string& why) {
  Command& command = commands_.at(number);
  if (command.why.empty()) command.why = why;
  on(number, CommandEvent::kEnd);
}

void RankCommands::end_all(const std::string& why) {
  std::vector<int> numbers;
  for (const auto& [number, command] : commands_) numbers.push_back(number);
  for (const int number : numbers) end(number, why);
}

void RankCommands::input(const v1::ExecInput& input) {
  auto* const found = find(input.id());
  if (found == nullptr) return;
  Command& command = found->second;
  if (command.input != nullptr) {
    command.input->push(input.data());
    if (input.eof()) command.input->end();
  } else if (command.phase == CommandPhase::kStarting && !command.has_early_end) {
    if (command.early_input.size() + input.data().size() > proto::kInputWindow) return;  // the launcher is at fault
    command.early_input += input.data();
    command.has_early_end = input.eof();
  }
}

void RankCommands::control(const v1::ExecControl& control) {
  auto* const found = find(control.id());
  if (found == nullptr) return;
  auto& [number, command] = *found;
  if (control.has_window_size()) resize(command, control.window_size());
  if (control.signal() > 0 && control.signal() < NSIG) signal(number, command, control.signal());
  if (control.output_taken() > 0 && command.output != nullptr) command.output->taken(control.output_taken());
  if (!control.end()) return;
  command.has_listener = false;
  end(number, "its caller left");
}

void RankCommands::resize(Command& command, const v1::WindowSize& size) const {
  if (!command.has_terminal || !is_window(size)) return;
  if (command.phase == CommandPhase::kStarting) command.early_size = size;
  if (command.input == nullptr) return;
  command.input->resize(static_cast<unsigned short>(size.rows()), static_cast<unsigned short>(size.columns()));
}

void RankCommands::signal(int number, Command& command, int signo) {
  if (command.phase == CommandPhase::kStarting) {
    command.early_signals.insert(signo);
  } else if (command.phase == CommandPhase::kRunning || command.phase == CommandPhase::kEnding) {
    (void)events_.signal(number, signo);
  }
}

void RankCommands::on_event(RankStarted& started) {
  const auto found = commands_.find(started.rank);
  if (found == commands_.end()) return;
  Command& command = found->second;
  connect(started.rank, command, started);
  if (command.has_listener) {
    v1::ExecStarted message;
    message.set_id(command.id);
    message.set_pid(started.pid);
    events_.send(message_with(&v1::AgentMessage::mutable_exec_started, std::move(message)));
  }
  on(started.rank, CommandEvent::kStarted);
  if (command.early_size) resize(command, *command.early_size);
  for (const int signo : std::exchange(command.early_signals, {})) signal(started.rank, command, signo);
}

void RankCommands::connect(int number, Command& command, RankStarted& started) {
  const auto kind = command.has_terminal ? RankInput::Kind::kTerminal : RankInput::Kind::kPipe;
  command.input = std::make_unique<RankInput>(
      loop_, std::move(started.stdin_fd), kind, [this, number](std::size_t bytes, bool closed) {
        const Command& reader = commands_.at(number);
        if (!reader.has_listener) return;
        v1::ExecInputTaken taken;
        taken.set_id(reader.id);
        taken.set_bytes(bytes);
        taken.set_closed(closed);
        events_.send(message_with(&v1::AgentMessage::mutable_exec_input_taken, std::move(taken)));
      });
  command.output = std::make_unique<CommandOutput>(
      loop_, std::move(started.stdout_fd), std::move(started.stderr_fd),
      CommandOutput::Events{.on_data =
                                [this, number](std::string data, bool is_stderr) {
                                  const Command& writer = commands_.at(number);
                                  if (!writer.has_listener) return;
                                  v1::ExecOutput output;
                                  output.set_id(writer.id);
                                  output.set_data(std::move(data));
                                  output.set_is_stderr(is_stderr);
                                  events_.send(message_with(&v1::AgentMessage::mutable_exec_output, std::move(output)));
                                },
                            .on_end = [this, number] { on(number, CommandEvent::kDrained); }});
  if (!command.early_input.empty()) command.input->push(std::exchange(command.early_input, {}));
  if (command.has_early_end) command.input->end();
}

void RankCommands::on_event(RankStartFailed& failed) {
  const auto found = commands_.find(failed.rank);
  if (found == commands_.end()) return;
  v1::ExecEnded ended;
  ended.set_not_started(true);
  ended.set_exit_code(failed.exit_code);
  ended.set_message(failed.message);
  report(found->second, std::move(ended));
  commands_.erase(found);
}

void RankCommands::on_event(RankExited& exited) {
  const auto found = commands_.find(exited.rank);
  if (found == commands_.end()) return;
  found->second.wait_status = exited.wait_status;
  on(exited.rank, CommandEvent::kExited);
}

void RankCommands::rank_over(int rank, const std::string& how) {
  starts_.erase(rank);
  std::vector<int> numbers;
  for (const auto& [number, command] : commands_) {
    // A command that has ended by itself only waits until its output is sent, so nothing has to end it.
    if (command.rank == rank && command.phase != CommandPhase::kDraining) numbers.push_back(number);
  }
  for (const int number : numbers) {
    end(number, fmt::format("rank {} ended ({}) while the command ran", events_.shown(rank), how));
  }
}

void RankCommands::stopping() {
  starts_.clear();
  for (auto& [number, command] : commands_) {
    if (command.why.empty()) command.why = "the job was stopped while the command ran";
  }
}

void RankCommands::stream_is_cut() {
  if (orphan_timer_.armed()) return;  // each failed attempt to connect ends like a cut
  orphan_timer_ = loop_.after(kOrphanTime, [this] {
    end_all(fmt::format("its host had no connection to the launcher for {} s", kOrphanTime.count()));
  });
}

void RankCommands::launcher_is_new() {
  orphan_timer_.cancel();
  for (auto& [number, command] : commands_) command.has_listener = false;
  end_all("the launcher was replaced");
}

void RankCommands::lose_all() {
  std::vector<int> numbers;
  for (auto& [number, command] : commands_) {
    if (command.phase == CommandPhase::kDraining || command.phase == CommandPhase::kOver) continue;
    if (command.why.empty()) command.why = "the warden, which had started the command, was killed";
    command.wait_status = SIGKILL;
    numbers.push_back(number);
  }
  for (const int number : numbers) on(number, CommandEvent::kExited);
}

}  // namespace muster::agent::job
