// Starter and SendGate: how an agent gets onto one host and starts there.
// Read start_on_host at the end first, then Starter's public functions, then SendGate::enter.
#include "launcherd/bootstrap/host_start.h"

#include <algorithm>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/bootstrap/marker_scanner.h"
#include "launcherd/bootstrap/packed_send.h"
#include "launcherd/bootstrap/sftp_upload.h"

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr auto kCleanUpTime = std::chrono::milliseconds(3000);
// A condition variable has no fd, so check the Waiter this often.
constexpr auto kGlance = std::chrono::milliseconds(50);

void note(const HostTask& task, const std::string& line) {
  if (task.on_note) task.on_note(line);
}

// Reports a host key that ssh accepted without a question, even without --verbose. The ssh program prints it on stderr.
void report_new_host_key(const HostTask& task, std::string_view errors) {
  for (const std::string_view line : base::split(errors, '\n')) {
    if (is_new_host_key_line(line) && task.on_stderr) task.on_stderr(base::printable(base::trim(line)));
  }
}

Failure describe_end(const RemoteProgram& program, std::string printed, std::string errors) {
  Failure failure;
  errors = without_ssh_warnings(errors);
  failure.exit_status = program.exit_status();
  failure.kind = classify_agent_end(failure.exit_status, errors, printed);
  failure.printed = std::move(printed);
  failure.errors = std::move(errors);
  return failure;
}

// Starter runs the steps for one host. It is a local variable of start_on_host.
class Starter {
 public:
  Starter(HostLink& link, const HostTask& task, SharedSending& sending, const Waiter& waiter, HostResult& result)
      : link_(link), task_(task), image_(sending.image), seeds_(sending.seeds), waiter_(waiter), result_(result) {}

  Failure try_cached() {
    is_spoilt_ = false;
    Failure failure = launch(cached_command(task_.paths, task_.args));
    // If the stored file is damaged, bash may run it as a script. The error messages then name the agent's file.
    if (failure.kind == FailureKind::kNoisyShell && failure.errors.find("/agent-") != std::string::npos) {
      is_spoilt_ = true;
    }
    if (is_spoilt_) failure.kind = FailureKind::kAgentMissing;  // the launcher then sends the agent again
    return failure;
  }

  // Called when a program that was sent runs as the agent, before its join is awaited. May be empty.
  std::function<void()> on_running;

  // `command` says which files of other hosts to look for. Calls `on_send` once the temporary file exists.
  Failure send_and_launch(const PackedCommand& command, const std::function<void()>& on_send) {
    is_shared_ = false;
    Failure failure{.kind = FailureKind::kNoWrite};
    if (command.unpacker_size > 0) failure = send_packed_and_launch(command, on_send);
    if (failure.kind == FailureKind::kNoWrite) failure = send_plain_and_launch();
    if (failure.kind == FailureKind::kAgentMissing && !is_shared_) failure.kind = FailureKind::kAgentFailed;
    if (!failure.ok() && !is_shared_) remove_temporary();
    result_.agent_sent = failure.ok();
    return failure;
  }

  // True after a send that was left to another host with the same file system.
  bool is_shared() const { return is_shared_; }
  // True if the host has a file with the agent's name that cannot be used.
  bool is_spoilt() const { return is_spoilt_; }

  Failure check_system() {
    std::unique_ptr<RemoteProgram> program;
    ProgramResult uname;
    Failure failure = link_.exec(std::string(kUnameCommand), waiter_, program);
    if (failure.ok()) failure = run_to_end(*program, {}, kMaxCommandOutput, waiter_, uname);
    if (!failure.ok()) return failure;
    const RemoteSystem system = parse_uname(uname.output);
    if (system.os.empty()) {
      return {.kind = FailureKind::kNoisyShell,
              .printed = std::move(uname.output),
              .errors = std::move(uname.errors),
              .exit_status = uname.exit_status};
    }
    if (system.os == "Linux" && is_same_machine(system.arch, image_.machine())) return {};
    return {.kind = FailureKind::kWrongArch,
            .detail = fmt::format("this agent runs on Linux {}, but the host runs {} {}", image_.machine(), system.os,
                                  system.arch)};
  }

 private:
  Failure send_packed_and_launch(const PackedCommand& command, const std::function<void()>& on_send) {
    std::unique_ptr<RemoteProgram> program;
    PackedSend sent;
    const auto address = link_.host_address();
    const PackedSendOptions options{.host_address = address ? address->str() : "",
                                    .on_send = on_send,
                                    .on_note = [this](const std::string& line) { note(task_, line); }};
    Failure failure = link_.exec(packed_command(task_.paths, command, task_.args), waiter_, program);
    if (failure.ok()) failure = send_packed(*program, image_, seeds_, options, waiter_, sent);
    is_shared_ = sent.is_shared;
    if (is_shared_) return {.kind = FailureKind::kAgentMissing};
    if (failure.ok()) return use(*program);
    if (failure.kind == FailureKind::kNoWrite) {
      note(task_, fmt::format("sending the compressed agent failed ({}), trying SFTP",
                              quote_for_message(failure.errors + failure.detail + " " + failure.printed)));
      program.reset();
      remove_temporary();
    }
    return failure;
  }

  Failure send_plain_and_launch() {
    if (Failure failure = check_system(); !failure.ok()) return failure;
    const auto content = image_.load();
    if (!content.ok()) return {.kind = FailureKind::kAgentFailed, .detail = content.status().message()};
    bool is_stored = false;
    Failure failure = store_by_sftp((*content)->bytes, is_stored);
    if (is_stored) failure = launch(install_command(task_.paths, (*content)->sha256, task_.args));
    if (is_stored && failure.kind == FailureKind::kAgentMissing) remove_by_sftp();
    return failure;
  }

  Failure launch(const std::string& command) {
    std::unique_ptr<RemoteProgram> program;
    if (Failure failure = link_.exec(command, waiter_, program); !failure.ok()) return failure;
    return use(*program);
  }

  // `program` is or becomes the agent.
  Failure use(RemoteProgram& program) {
    if (task_.is_run) return collect(program);
    Failure failure = await_marker(program, task_, waiter_);
    if (failure.ok() && on_running) on_running();
    if (failure.ok()) failure = hand_over(program, task_, waiter_, result_.stream);
    if (failure.kind == FailureKind::kWrongArch && failure.detail.empty()) {
      const Failure why = check_system();
      failure.detail = why.kind == FailureKind::kWrongArch ? why.detail : quote_for_message(failure.errors);
      is_spoilt_ = why.ok();  // the host has the right machine, so the stored file is damaged
    }
    return failure;
  }

  Failure collect(RemoteProgram& program) {
    ProgramResult run;
    if (Failure failure = run_to_end(program, {}, kMaxCommandOutput, waiter_, run); !failure.ok()) return failure;
    const Failure end = describe_end(program, run.output, run.errors);
    const bool has_run = end.kind == FailureKind::kNoisyShell || end.kind == FailureKind::kAgentFailed;
    if (!has_run && run.exit_status != 0) return end;
    run.output = output_after_marker(run.output);
    result_.run = std::move(run);
    return {};
  }

  Failure store_by_sftp(std::string_view content, bool& is_stored) {
    std::unique_ptr<RemoteProgram> sftp;
    bool is_usable = false;
    Failure failure = link_.subsystem("sftp", waiter_, sftp);
    // Here, kSshFailed means that the host has no SFTP subsystem. The caller may then store the file in another way.
    if (failure.kind == FailureKind::kSshFailed) failure.kind = FailureKind::kNoWrite;
    if (failure.ok()) {
      failure = sftp_upload(*sftp, sftp_path(task_.paths.directory), sftp_path(task_.paths.temporary), content, waiter_,
                            is_usable);
    }
    is_stored = failure.ok();
    if (failure.kind == FailureKind::kTimeout && !is_usable && waiter_.check().ok()) {
      failure.kind = FailureKind::kNoWrite;
    }
    if (failure.kind == FailureKind::kNoWrite) {
      note(task_, fmt::format("SFTP {} ({})", is_usable ? "failed" : "is not available",
                              quote_for_message(failure.errors + failure.detail + " " + failure.printed)));
    }
    return failure;
  }

  void remove_by_sftp() {
    const Waiter clean_up{-1, std::chrono::steady_clock::now() + kCleanUpTime};
    std::unique_ptr<RemoteProgram> sftp;
    if (link_.subsystem("sftp", clean_up, sftp).ok()) sftp_remove(*sftp, sftp_path(task_.paths.temporary), clean_up);
  }

  // Best effort, even after a cancel. If the removal fails, one file stays in the agent's directory.
  void remove_temporary() {
    const Waiter clean_up{-1, std::chrono::steady_clock::now() + kCleanUpTime};
    std::unique_ptr<RemoteProgram> program;
    ProgramResult removed;
    Failure failure = link_.exec(remove_command(task_.paths), clean_up, program);
    if (failure.ok()) failure = run_to_end(*program, {}, kMaxCommandOutput, clean_up, removed);
    if (!failure.ok()) note(task_, fmt::format("{} may be left behind", task_.paths.temporary));
  }

  HostLink& link_;
  const HostTask& task_;
  const AgentImage& image_;
  SeedBoard& seeds_;
  const Waiter& waiter_;
  HostResult& result_;
  bool is_spoilt_ = false;
  bool is_shared_ = false;
};

}  // namespace

SendGate::Turn SendGate::enter(base::MonotonicTime probed_at, const Waiter& waiter, std::string& temporary) {
  std::unique_lock lock(mutex_);
  for (;;) {
    temporary = first_temporary_;
    if (first_sent_at_) return probed_at < *first_sent_at_ ? Turn::kBeside : Turn::kSend;
    if (!is_first_under_way_) {
      is_first_under_way_ = true;
      return Turn::kFirst;
    }
    if (!first_temporary_.empty()) return Turn::kBeside;
    changed_.wait_for(lock, kGlance);
    if (!waiter.check().ok()) return Turn::kCancelled;
  }
}

void SendGate::announce(const std::string& temporary) {
  const std::lock_guard lock(mutex_);
  first_temporary_ = temporary;
  changed_.notify_all();
}

void SendGate::leave(bool is_sent) {
  const std::lock_guard lock(mutex_);
  is_first_under_way_ = false;
  first_temporary_.clear();
  if (is_sent && !first_sent_at_) first_sent_at_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

bool SendGate::await_first(const Waiter& waiter) {
  std::unique_lock lock(mutex_);
  while (is_first_under_way_) {
    changed_.wait_for(lock, kGlance);
    if (!waiter.check().ok()) return false;
  }
  return true;
}

Failure await_marker(RemoteProgram& program, const HostTask& task, const Waiter& waiter) {
  MarkerScanner scanner(task.agent_id);
  std::string errors;
  std::string_view nothing;
  while (scanner.state() == MarkerScanner::State::kSearching) {
    if (program.has_ended()) {
      report_new_host_key(task, errors);
      return describe_end(program, scanner.noise(), errors);
    }
    std::string line;
    if (Failure failure = program.exchange(nothing, line, errors, waiter); !failure.ok()) {
      if (failure.kind == FailureKind::kTimeout) failure.detail = "logged in, but the agent did not answer";
      failure.printed = scanner.noise();
      if (failure.errors.empty()) failure.errors = errors;
      return failure;
    }
    scanner.feed(line);
    if (errors.size() > MarkerScanner::kMaxNoise) errors.resize(MarkerScanner::kMaxNoise);
  }
  switch (scanner.state()) {
    case MarkerScanner::State::kTooMuchNoise:
      return {.kind = FailureKind::kNoisyShell, .printed = scanner.noise(), .errors = errors};
    case MarkerScanner::State::kOtherBuild:
      return {.kind = FailureKind::kOtherBuild, .detail = scanner.other_id()};
    default:
      break;
  }
  report_new_host_key(task, errors);
  const std::string others = without_ssh_warnings(errors);  // the lines below are views of `others`
  for (const std::string_view line : base::split(others, '\n')) {
    if (!base::trim(line).empty()) note(task, base::printable(base::trim(line)));
  }
  if (!scanner.noise().empty())
    note(task, fmt::format("the login shell printed \"{}\"", quote_for_message(scanner.noise())));
  return {};
}

Failure hand_over(RemoteProgram& program, const HostTask& task, const Waiter& waiter, base::UniqueFd& stream) {
  const base::Result<std::string>& join = task.join.get();
  if (!join.ok()) return {.kind = FailureKind::kSshFailed, .detail = join.status().message()};
  return program.release(*join, task.on_stderr, waiter, stream);
}

std::string output_after_marker(std::string_view output) {
  const std::size_t marker = output.find(kAgentMarker);
  const std::size_t line_end = marker == std::string_view::npos ? marker : output.find('\n', marker);
  return std::string(line_end == std::string_view::npos ? output : output.substr(line_end + 1));
}

namespace {

Failure gate_failure(const Waiter& waiter) {
  Failure failure = wait_failure(waiter.check());
  if (failure.kind == FailureKind::kTimeout) failure.detail = "while the agent was sent to another host first";
  return failure;
}

// Sends the agent when it is this host's turn. kAgentMissing: look for the agent again.
Failure send_in_turn(Starter& starter, const HostTask& task, SharedSending& sending, base::MonotonicTime probed_at,
                     const Waiter& waiter) {
  SendGate& gate = sending.gate;
  PackedCommand command{.unpacker_size = sending.image.unpacker_size()};
  const SendGate::Turn turn = gate.enter(probed_at, waiter, command.shared);
  if (turn == SendGate::Turn::kCancelled) return gate_failure(waiter);
  if (turn == SendGate::Turn::kBeside) {
    if (command.unpacker_size == 0) {  // SFTP cannot look for the other host's file, so wait for the other host
      return gate.await_first(waiter) ? Failure{.kind = FailureKind::kAgentMissing} : gate_failure(waiter);
    }
    command.stops_if_there_is_one = !starter.is_spoilt();
  }
  const bool is_first = turn == SendGate::Turn::kFirst;
  // The join may wait for the agent of another host, so let the others go on as soon as the agent runs.
  bool has_left = !is_first;
  const auto leave = [&](bool is_sent) {
    if (!std::exchange(has_left, true)) gate.leave(is_sent);
  };
  starter.on_running = [&] { leave(true); };
  Failure failure = starter.send_and_launch(command, [&] {
    if (is_first) gate.announce(task.paths.temporary);
  });
  starter.on_running = nullptr;
  leave(failure.ok());
  if (starter.is_shared() && !gate.await_first(waiter)) return gate_failure(waiter);
  return failure;
}

}  // namespace

Failure start_on_host(HostLink& link, const HostTask& task, SharedSending& sending, const Waiter& waiter,
                      HostResult& result) {
  Starter starter(link, task, sending, waiter, result);
  Failure failure;
  do {
    const auto probed_at = std::chrono::steady_clock::now();
    failure = starter.try_cached();
    if (failure.kind != FailureKind::kAgentMissing) break;
    failure = send_in_turn(starter, task, sending, probed_at, waiter);
  } while (failure.kind == FailureKind::kAgentMissing);
  failure.directory = task.paths.directory;
  if (!failure.ok() && failure.address.empty()) failure.address = link.address();
  return failure;
}

}  // namespace muster::launcherd::bootstrap
