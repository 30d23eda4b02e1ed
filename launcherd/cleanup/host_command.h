// HostCommand runs one command of muster-agent on all hosts at the same time, such as `muster-agent --cleanup`. It
// returns what each printed, in the order of the hosts.
//
// Thread: the loop thread only.
// Owner: `bootstrap` is borrowed and must outlive the object. If the object is destroyed before `on_done`, it drops
// the hosts, and no callback runs afterwards.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "base/strings.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "model/host_spec.h"
#include "proto/frame.h"

namespace muster::launcherd::inline cleanup {

class HostCommand {
 public:
  using Results = std::vector<base::Result<CommandResult>>;

  struct Events {
    std::function<void(const std::vector<std::string>& waiting)>
        on_progress;  // gets the hosts that have not answered; may be empty
    std::function<void(Results)> on_done;
  };

  // `hosts` has at least one host, and each once.
  HostCommand(base::Loop& loop, Bootstrap* bootstrap, std::vector<model::HostSpec> hosts,
              std::vector<std::string> arguments, Events events);
  ~HostCommand();

  void start();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

// Parses the output of an agent: one frame with a report. The error is one sentence without the host's name. Pure.
template <typename Report>
base::Result<Report> parse_host_report(const CommandResult& result, std::string_view command) {
  if (result.exit_status != 0) {
    const std::string errors(base::trim(result.errors));
    return base::unavailable("muster-agent {} failed there with exit code {}{}{}", command, result.exit_status,
                             errors.empty() ? "" : ": ", base::printable(errors));
  }
  proto::FrameReader frames;
  frames.feed(result.output);
  MUSTER_ASSIGN_OR_RETURN(const auto frame, frames.next());
  Report report;
  if (!frame || !frames.is_empty() || !report.ParseFromString(*frame)) {
    return base::invalid_argument("cannot read the answer of its agent: is that agent from another build?");
  }
  return report;
}

// Makes the report of each host, with its name. If a host could not be asked, its report has only `unreachable`.
template <typename Report>
std::vector<Report> host_reports(const std::vector<model::HostSpec>& hosts, const HostCommand::Results& results,
                                 std::string_view command) {
  std::vector<Report> reports;
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto parsed =
        results[i].ok() ? parse_host_report<Report>(*results[i], command) : base::Result<Report>(results[i].status());
    Report report;
    if (parsed.ok()) {
      report = std::move(*parsed);
      report.clear_unreachable();
    } else {
      report.set_unreachable(base::valid_utf8(parsed.status().message()));
    }
    report.set_host(hosts[i].name);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace muster::launcherd::cleanup
