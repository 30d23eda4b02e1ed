#include "launcherd/hosts/discovery.h"

#include <algorithm>
#include <utility>

#include "launcherd/bootstrap/child.h"
#include "launcherd/hosts/hostfile.h"

namespace muster::launcherd {
namespace {

using base::Code;
using base::error;

constexpr std::size_t kMaxOutput = 1u << 20;  // some 50,000 hosts

std::string said(const ProgramResult& result) {
  const std::string words = quote_for_message(result.errors);
  return words.empty() ? "" : "; it said: " + words;
}

// A host that is named again is not one more: what the last line says counts, as for horovodrun.
std::vector<model::HostSpec> last_of_each(std::vector<model::HostSpec> hosts) {
  std::vector<model::HostSpec> result;
  for (model::HostSpec& host : hosts) {
    const auto found = std::ranges::find(result, host.name, &model::HostSpec::name);
    if (found == result.end()) {
      result.push_back(std::move(host));
    } else {
      *found = std::move(host);
    }
  }
  return result;
}

// What never ends is not read to its end.
Failure run_bounded(RemoteProgram& program, const Waiter& waiter, ProgramResult& result) {
  if (Failure failure = program.close_input(waiter); !failure.ok()) return failure;
  std::string_view no_input;
  while (!program.has_ended() && result.output.size() <= kMaxOutput) {
    if (Failure failure = wait_failure(waiter.check()); !failure.ok()) return failure;
    if (Failure failure = program.exchange(no_input, result.output, result.errors, waiter); !failure.ok()) {
      return failure;
    }
    if (result.errors.size() > kMaxOutput) result.errors.resize(kMaxOutput);
  }
  if (program.has_ended()) result.exit_status = program.exit_status();
  return {};
}

}  // namespace

base::Result<std::vector<model::HostSpec>> discover_hosts(const std::string& script, const Waiter& waiter) {
  const std::string name = "host discovery script " + quote_for_message(script);
  Pump pump;
  auto child = spawn_child("/bin/sh", {"/bin/sh", "-c", script}, {});
  if (!child.ok()) return child.status().with_context(name);
  ChildProcess& process = *child->process;  // owned by what follows
  ChildProgram program(*std::move(child), pump, nullptr);
  ProgramResult result;
  const Failure failure = run_bounded(program, waiter, result);
  if (!failure.ok()) {
    process.kill_group();
    const char* what = failure.kind == FailureKind::kTimeout ? "took too long and was ended" : "was interrupted";
    return error(failure.kind == FailureKind::kTimeout ? Code::kDeadlineExceeded : Code::kCancelled, "{} {}{}", name,
                 what, said(result));
  }
  if (result.output.size() > kMaxOutput) {
    process.kill_group();
    return error(Code::kResourceExhausted, "{} prints more than {} MiB: that is no list of hosts", name,
                 kMaxOutput >> 20);
  }
  if (result.exit_status > 128) {
    return error(Code::kUnavailable, "{} was ended by signal {}{}", name, result.exit_status - 128, said(result));
  }
  if (result.exit_status != 0) {
    return error(Code::kUnavailable, "{} ended with exit code {}{}", name, result.exit_status, said(result));
  }
  auto hosts = model::parse_hostfile(result.output, "output of " + name);
  if (!hosts.ok()) return error(hosts.status().code(), "{}{}", hosts.status().message(), said(result));
  return last_of_each(*std::move(hosts));
}

}  // namespace muster::launcherd
