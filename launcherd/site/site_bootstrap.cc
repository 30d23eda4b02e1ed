// SiteBootstrap: expect() makes a wave and launches it. start() claims one of its seats and waits for the agent.
// Read expect and start first, then launch and try_to_launch, then await_agent and fail_seat.
#include "launcherd/site/site_bootstrap.h"

#include <algorithm>

#include "base/file.h"
#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/bootstrap/child.h"
#include "launcherd/bootstrap/host_start.h"
#include "launcherd/enrol/enrolled_stream.h"
#include "launcherd/site/site_run.h"

namespace muster::launcherd::inline site {
namespace {

using base::Code;

// The clocks of hosts may differ by this much.
constexpr std::chrono::minutes kClockSkew{5};
constexpr std::size_t kLongestNote = 2000;

std::string key_of(const BootstrapTarget& target) {
  return fmt::format("{}@{}:{}", target.user, target.name, target.port);
}

}  // namespace

struct SiteBootstrap::Wave {
  std::vector<BootstrapTarget> targets;
  std::shared_ptr<EnrolmentWave> seats;
  base::MonotonicTime deadline{};
  std::string identity;
  std::mutex mutex;
  OwnedFile join_file;  // guarded by mutex
  OwnedFile host_file;  // guarded by mutex
};

base::Result<std::unique_ptr<SiteBootstrap>> SiteBootstrap::make(const BootstrapOptions& options, AgentImage image,
                                                                 SiteUser user) {
  SiteLauncher launcher{.by = options.by, .words = {}, .allocation = options.allocation};
  if (options.by == BootstrapBy::kCommand) {
    MUSTER_ASSIGN_OR_RETURN(launcher.words, split_words(options.command));
  }
  MUSTER_ASSIGN_OR_RETURN(std::string directory, site_directory(options.agent_dir, user.home));
  return std::unique_ptr<SiteBootstrap>(
      new SiteBootstrap(options, std::move(image), std::move(launcher), std::move(user), std::move(directory)));
}

SiteBootstrap::SiteBootstrap(BootstrapOptions options, AgentImage image, SiteLauncher launcher, SiteUser user,
                             std::string directory)
    : options_(std::move(options)),
      image_(std::move(image)),
      launcher_(std::move(launcher)),
      user_(std::move(user)),
      directory_(std::move(directory)),
      workers_(std::max(2, options_.max_parallel)) {}

SiteBootstrap::~SiteBootstrap() {
  cancel();
}

void SiteBootstrap::cancel() {
  cancel_.cancel();
  std::vector<std::shared_ptr<Wave>> waves;
  {
    const std::lock_guard lock(mutex_);
    waves = waves_;
  }
  for (const auto& wave : waves) {
    wave->seats->give_up_all("cancelled");
    seat_settled(wave);
  }
}

void SiteBootstrap::report(const std::string& label, const std::string& line) const {
  // Do not repeat the prefix. Most of these programs already begin their lines with their name.
  const std::string prefix = label + ": ";
  if (options_.on_stderr) options_.on_stderr(label, line.starts_with(prefix) ? line.substr(prefix.size()) : line);
}

void SiteBootstrap::note(const std::string& label, const std::string& line) const {
  if (options_.on_note) options_.on_note(label, line.substr(0, kLongestNote));
}

// A command that serves one host is labelled with the host's name, like an ssh log-in.
std::string SiteBootstrap::label(const SiteCommand& command, const std::vector<BootstrapTarget>& targets) const {
  const bool is_one_for_all = launcher_.by != BootstrapBy::kCommand && launcher_.by != BootstrapBy::kPbsdsh;
  return is_one_for_all ? command.argv.front() : targets[command.hosts.front()].name;
}

void SiteBootstrap::expect(const std::vector<BootstrapTarget>& targets) {
  if (targets.empty()) return;
  auto wave = std::make_shared<Wave>();
  wave->targets = targets;
  wave->deadline = std::chrono::steady_clock::now() + options_.start_timeout;
  wave->identity = "muster-join-" + base::random_hex(8);
  std::vector<std::string> names;
  for (const BootstrapTarget& target : targets) names.push_back(target.name);
  auto seats = EnrolmentWave::make(std::move(names));
  base::Status status = seats.status();
  if (seats.ok()) wave->seats = std::move(*seats);
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    waves_.push_back(wave);
  }
  if (status.ok()) status = workers_.post([this, wave] { launch(wave); });
  const std::lock_guard lock(mutex_);
  if (!status.ok()) std::erase(waves_, wave);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    seats_.emplace(key_of(targets[i]), status.ok() ? base::Result<Seat>(Seat{wave, i}) : status);
  }
}

base::Result<SiteBootstrap::Seat> SiteBootstrap::claim(const BootstrapTarget& target) {
  const std::lock_guard lock(mutex_);
  // A seat is late if its agent was not started before the deadline.
  const auto is_late = [](const base::Result<Seat>& seat) {
    return seat.ok() && seat->wave->deadline <= std::chrono::steady_clock::now();
  };
  auto found = seats_.find(key_of(target));
  while (found != seats_.end() && is_late(found->second)) {
    seats_.erase(found);
    found = seats_.find(key_of(target));
  }
  if (found == seats_.end()) return base::internal_error("host {}: no wave expects its agent", target.name);
  base::Result<Seat> seat = std::move(found->second);
  seats_.erase(found);
  return seat;
}

void SiteBootstrap::launch(const std::shared_ptr<Wave>& wave) {
  const base::Status launched = try_to_launch(wave);
  if (!launched.ok()) wave->seats->give_up_all(launched.message());
  seat_settled(wave);
}

base::Result<EnrolmentServer*> SiteBootstrap::server() {
  const std::lock_guard lock(mutex_);
  if (server_ == nullptr) {
    EnrolmentOptions options;
    options.build_id = options_.agent_id;
    const std::string name(bootstrap_name(launcher_.by));
    options.on_note = [this, name](const std::string& line) { note(name, line); };
    options.on_refused = [this, name](const std::string& line) { report(name, line); };
    MUSTER_ASSIGN_OR_RETURN(server_, EnrolmentServer::start(pump_, std::move(options)));
  }
  return server_.get();
}

base::Result<SiteAgent> SiteBootstrap::write_files(const std::shared_ptr<Wave>& wave, std::uint16_t port) {
  SiteAgent agent;
  MUSTER_ASSIGN_OR_RETURN(agent.program, place_agent(directory_, options_.agent_id, image_));
  proto::JoinFile join;
  MUSTER_ASSIGN_OR_RETURN(join.addresses, join_addresses());
  join.port = port;
  join.identity = wave->identity;
  join.token = base::random_hex(32);
  join.expires = base::SystemClock().wall() + options_.start_timeout + kClockSkew;
  join.variables = join_variables(user_.home, user_.name);
  MUSTER_ASSIGN_OR_RETURN(EnrolmentServer * enrolment, server());
  MUSTER_RETURN_IF_ERROR(enrolment->open(wave->identity, join.token, wave->seats,
                                         [this, wave = std::weak_ptr(wave)](const std::string& host) {
                                           note(host, "its agent has enrolled");
                                           if (const auto settled = wave.lock()) seat_settled(settled);
                                         }));
  const std::string stem = directory_ + "/join-" + base::random_hex(8);
  MUSTER_ASSIGN_OR_RETURN(OwnedFile join_file, OwnedFile::write(stem, proto::format_join_file(join)));
  agent.join_file = stem;
  agent.args = {"--join", stem};
  const std::lock_guard lock(wave->mutex);
  wave->join_file = std::move(join_file);
  if (!needs_host_file(launcher_.by)) return agent;
  std::string names;
  for (const BootstrapTarget& target : wave->targets) names += target.name + "\n";
  agent.host_file = stem + ".hosts";
  MUSTER_ASSIGN_OR_RETURN(wave->host_file, OwnedFile::write(agent.host_file, names));
  return agent;
}

base::Status SiteBootstrap::try_to_launch(const std::shared_ptr<Wave>& wave) {
  MUSTER_RETURN_IF_ERROR((Waiter{cancel_.fd(), base::MonotonicTime::max()}.check()));
  MUSTER_ASSIGN_OR_RETURN(EnrolmentServer * enrolment, server());
  MUSTER_ASSIGN_OR_RETURN(const SiteAgent agent, write_files(wave, enrolment->port()));
  // Storing the agent takes time. If every seat was given up by now, start nothing.
  if (wave->seats->is_complete()) return base::ok_status();
  if (launcher_.by == BootstrapBy::kManual) {
    for (const BootstrapTarget& target : wave->targets) {
      report(target.name, "start the agent there, as the same user: " + typed_command(target, agent));
    }
    return base::ok_status();
  }
  MUSTER_ASSIGN_OR_RETURN(const auto commands, site_commands(launcher_, wave->targets, agent));
  for (const SiteCommand& command : commands) {
    const base::Status started = start_command(wave, command);
    if (started.ok()) continue;
    wave->seats->give_up(command.hosts, started.message());
    seat_settled(wave);
  }
  return base::ok_status();
}

base::Status SiteBootstrap::start_command(const std::shared_ptr<Wave>& wave, const SiteCommand& command) {
  const std::string name = label(command, wave->targets);
  note(name, "starting: " + base::join(command.argv, " "));
  SiteRunEvents events;
  events.on_line = [this, name](const std::string& line) {
    is_usual_remark(line) ? note(name, line) : report(name, line);
  };
  events.on_end = [this, wave, command](int exit_status, const std::string& last_lines) {
    command_ended(wave, command, exit_status, last_lines);
  };
  events.has_agents = [wave, hosts = command.hosts] { return wave->seats->is_any_occupied(hosts); };
  events.is_given_up = [wave, hosts = command.hosts] { return wave->seats->are_given_up(hosts); };
  return start_site_run(pump_, command.argv, variables_without(launcher_.by), std::move(events));
}

void SiteBootstrap::command_ended(const std::shared_ptr<Wave>& wave, const SiteCommand& command, int exit_status,
                                  const std::string& last_lines) {
  // If a command of the user succeeds, keep the seats, because the command may leave the agent in the background.
  if (launcher_.by == BootstrapBy::kCommand && exit_status == 0) return;
  wave->seats->give_up(
      command.hosts,
      fmt::format("{} ended with exit status {} before the agent there enrolled{}", command.argv.front(), exit_status,
                  last_lines.empty() ? ", without any output" : fmt::format(": \"{}\"", last_lines)));
  seat_settled(wave);
}

// Removes the wave's files once no further agent can enrol.
void SiteBootstrap::seat_settled(const std::shared_ptr<Wave>& wave) {
  pump_.wake();
  if (!wave->seats->is_complete()) return;
  {
    const std::lock_guard lock(mutex_);
    if (server_ != nullptr) server_->close(wave->identity);
    std::erase(waves_, wave);
  }
  const std::lock_guard lock(wave->mutex);
  wave->join_file.remove();
  wave->host_file.remove();
}

base::Status SiteBootstrap::fail_seat(const Seat& seat, const base::Status& waited) {
  const BootstrapTarget& target = seat.wave->targets[seat.index];
  FailureKind kind = FailureKind::kAgentFailed;
  std::string text = seat.wave->seats->reason(seat.index);
  if (waited.code() == Code::kCancelled) {
    kind = FailureKind::kCancelled;
    text = "cancelled";
  } else if (text.empty() && waited.code() == Code::kDeadlineExceeded) {
    kind = FailureKind::kTimeout;
    text = fmt::format(
        "its agent did not connect within {} s: check that {} started it there and that the host can reach this one, "
        "or raise --start-timeout",
        std::chrono::ceil<std::chrono::seconds>(options_.start_timeout).count(),
        launcher_.by == BootstrapBy::kManual    ? "somebody"
        : launcher_.by == BootstrapBy::kCommand ? launcher_.words.front()
                                                : std::string(bootstrap_name(launcher_.by)));
  } else if (text.empty()) {
    text = waited.message();
  }
  seat.wave->seats->give_up({seat.index}, text);
  seat_settled(seat.wave);
  if (options_.on_failure) options_.on_failure(target, kind);
  const Code code = waited.ok() || waited.code() == Code::kUnknown ? Code::kUnavailable : waited.code();
  return base::error(code, "host {}: {}", target.name, text);
}

base::Result<StartedAgent> SiteBootstrap::await_agent(const Seat& seat, const JoinSource& join) {
  const Waiter waiter{cancel_.fd(), seat.wave->deadline};
  const std::string& name = seat.wave->targets[seat.index].name;
  StartedAgent agent;
  agent.stream = seat.wave->seats->take_stream(seat.index);
  if (const base::Status there = await_marker_line(agent.stream.get(), options_.agent_id, name, waiter); !there.ok()) {
    return fail_seat(seat, there);
  }
  const base::Result<std::string>& text = join.get();
  const base::Status sent = text.ok() ? send_all(agent.stream.get(), *text, waiter) : text.status();
  if (!sent.ok()) return fail_seat(seat, sent);
  const EnrolmentWave::Ends ends = seat.wave->seats->ends(seat.index);
  agent.host_address = ends.host;
  if (ends.launcher) agent.launcher_addresses.push_back(*ends.launcher);
  agent.backend = bootstrap_name(launcher_.by);
  return agent;
}

void SiteBootstrap::start(const BootstrapTarget& target, JoinSource join,
                          std::function<void(base::Result<StartedAgent>)> done) {
  if (const base::Status checked = check_target_names(target.name, target.user); !checked.ok()) return done(checked);
  auto seat = claim(target);
  if (!seat.ok() && seat.status().code() == Code::kInternal) {
    expect({target});
    seat = claim(target);
  }
  if (!seat.ok()) return done(seat.status().with_context("host " + target.name));
  const base::Status posted =
      workers_.post([this, seat = *std::move(seat), join = std::move(join), done] { done(await_agent(seat, join)); });
  if (!posted.ok()) done(posted);
}

base::Result<CommandResult> SiteBootstrap::run_there(const BootstrapTarget& target, std::vector<std::string> args) {
  MUSTER_RETURN_IF_ERROR(check_target_names(target.name, target.user));
  MUSTER_RETURN_IF_ERROR(check_agent_args(args));
  const Waiter waiter{cancel_.fd(), std::chrono::steady_clock::now() + options_.start_timeout};
  SiteAgent agent;
  MUSTER_ASSIGN_OR_RETURN(agent.program, place_agent(directory_, options_.agent_id, image_));
  agent.args = std::move(args);
  if (launcher_.by == BootstrapBy::kManual) {
    return base::unimplemented("host {}: --bootstrap manual cannot start a program there; run this on that host: {}",
                               target.name, typed_command(target, agent));
  }
  OwnedFile host_file;
  if (needs_host_file(launcher_.by)) {
    agent.host_file = directory_ + "/join-" + base::random_hex(8) + ".hosts";
    MUSTER_ASSIGN_OR_RETURN(host_file, OwnedFile::write(agent.host_file, target.name + "\n"));
  }
  MUSTER_ASSIGN_OR_RETURN(const auto commands, site_commands(launcher_, {target}, agent));
  const std::vector<std::string>& argv = commands.front().argv;
  MUSTER_ASSIGN_OR_RETURN(SpawnedChild child, spawn_child(argv.front(), argv, variables_without(launcher_.by)));
  ChildProgram program(std::move(child), pump_, nullptr);
  ProgramResult result;
  Failure failure = run_to_end(program, {}, kMaxCommandOutput, waiter, result);
  if (!failure.ok()) {
    failure.host = target.name;
    if (options_.on_failure) options_.on_failure(target, failure.kind);
    return to_status(failure);
  }
  std::string errors;
  for (const std::string_view line : base::split(result.errors, '\n')) {
    if (!line.empty() && !is_usual_remark(line)) errors += std::string(line) + "\n";
  }
  return CommandResult{
      .exit_status = result.exit_status, .output = output_after_marker(result.output), .errors = std::move(errors)};
}

void SiteBootstrap::run(const BootstrapTarget& target, std::vector<std::string> args,
                        std::function<void(base::Result<CommandResult>)> done) {
  const base::Status posted = workers_.post(
      [this, target, args = std::move(args), done]() mutable { done(run_there(target, std::move(args))); });
  if (!posted.ok()) done(posted);
}

}  // namespace muster::launcherd::site
