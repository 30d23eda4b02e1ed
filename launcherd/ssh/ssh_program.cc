#include "launcherd/ssh/ssh_program.h"

#include <algorithm>

#include "base/strings.h"
#include "launcherd/bootstrap/child.h"

namespace muster::launcherd::inline ssh {

std::vector<std::string> ssh_command_line(const SshProgramOptions& options, int connect_timeout_s, bool is_subsystem,
                                          const std::string& what) {
  std::vector<std::string> line = {options.program};
  line.insert(line.end(), options.extra_args.begin(), options.extra_args.end());
  for (const char* option : {"BatchMode=yes", "ServerAliveInterval=15", "ServerAliveCountMax=3",
                             "ClearAllForwardings=yes", "ForwardX11=no", "PermitLocalCommand=no"}) {
    line.insert(line.end(), {"-o", option});
  }
  line.insert(line.end(), {"-o", fmt::format("ConnectTimeout={}", connect_timeout_s)});
  if (options.accept_new_keys) line.insert(line.end(), {"-o", "StrictHostKeyChecking=accept-new"});
  line.insert(line.end(), {"-T", "-e", "none"});
  if (options.port != 0) line.insert(line.end(), {"-p", std::to_string(options.port)});
  if (!options.identity_file.empty()) line.insert(line.end(), {"-i", options.identity_file});
  if (!options.user.empty()) line.insert(line.end(), {"-l", options.user});
  if (is_subsystem) line.push_back("-s");
  line.insert(line.end(), {"--", options.host, what});
  return line;
}

Failure read_ssh_end(int exit_status, const std::string& errors) {
  if (exit_status != 255) return {};
  Failure failure;
  failure.kind = classify_ssh_errors(errors);
  failure.is_before_banner = failure.kind == FailureKind::kClosed && is_closed_before_banner(errors);
  failure.errors = errors;
  // ssh's last line is the reason. The lines before it are warnings and banners.
  for (const std::string_view line : base::split(errors, '\n')) {
    if (!base::trim(line).empty()) failure.detail = quote_for_message(line);
  }
  if (failure.detail.empty()) failure.detail = "ssh ended with exit status 255";
  if (failure.kind == FailureKind::kHostKeyChanged) failure.detail = "known_hosts";
  return failure;
}

Failure SshProgramLink::spawn(bool is_subsystem, const std::string& what, const Waiter& waiter,
                              std::unique_ptr<RemoteProgram>& program) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(waiter.left()).count();
  const int connect_timeout = static_cast<int>(std::clamp<decltype(seconds)>(seconds, 1, 3600));
  auto child = spawn_child(options_.program, ssh_command_line(options_, connect_timeout, is_subsystem, what),
                           {"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY"});
  if (!child.ok()) return {.kind = FailureKind::kNoSsh, .detail = child.status().message()};
  program = std::make_unique<ChildProgram>(*std::move(child), pump_, read_ssh_end);
  return {};
}

Failure SshProgramLink::exec(const std::string& command, const Waiter& waiter,
                             std::unique_ptr<RemoteProgram>& program) {
  return spawn(false, command, waiter, program);
}

Failure SshProgramLink::subsystem(const std::string& name, const Waiter& waiter,
                                  std::unique_ptr<RemoteProgram>& program) {
  return spawn(true, name, waiter, program);
}

}  // namespace muster::launcherd::ssh
