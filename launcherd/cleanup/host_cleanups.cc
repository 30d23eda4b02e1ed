#include "launcherd/cleanup/host_cleanups.h"

#include <utility>

#include "base/strings.h"
#include "proto/frame.h"

namespace muster::launcherd::inline cleanup {

class HostCleanups::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(base::Loop& loop, Bootstrap* bootstrap, CleanupPlan plan, CleanupEvents events)
      : loop_(loop), bootstrap_(bootstrap), plan_(std::move(plan)), events_(std::move(events)) {}

  void start();
  void drop() { is_dropped_ = true; }

 private:
  std::vector<std::string> arguments() const;
  void answered(std::size_t index, const base::Result<CommandResult>& result);
  void report_progress() const;

  base::Loop& loop_;
  Bootstrap* const bootstrap_;
  const CleanupPlan plan_;
  const CleanupEvents events_;
  std::vector<v1::CleanupReport> reports_;
  std::vector<bool> is_answered_;
  std::size_t open_ = 0;
  bool is_dropped_ = false;
};

std::vector<std::string> HostCleanups::Core::arguments() const {
  std::vector<std::string> words{"--cleanup"};
  if (plan_.dry_run) words.emplace_back("--dry-run");
  if (!plan_.job.empty()) words.insert(words.end(), {"--job", plan_.job});
  if (!plan_.session_root.empty()) words.insert(words.end(), {"--session-root", plan_.session_root});
  return words;
}

void HostCleanups::Core::start() {
  reports_.resize(plan_.hosts.size());
  is_answered_.resize(plan_.hosts.size());
  open_ = plan_.hosts.size();
  for (std::size_t i = 0; i < plan_.hosts.size(); ++i) {
    const model::HostSpec& host = plan_.hosts[i];
    reports_[i].set_host(host.name);
    bootstrap_->run({.name = host.name, .user = host.user, .port = host.port}, arguments(),
                    [weak = weak_from_this(), &loop = loop_, i](const base::Result<CommandResult>& result) {
                      loop.post([weak, i, result] {
                        const auto core = weak.lock();
                        if (core != nullptr && !core->is_dropped_) core->answered(i, result);
                      });
                    });
  }
  report_progress();
}

void HostCleanups::Core::answered(std::size_t index, const base::Result<CommandResult>& result) {
  v1::CleanupReport& report = reports_[index];
  auto parsed = result.ok() ? parse_cleanup_report(*result) : base::Result<v1::CleanupReport>(result.status());
  if (parsed.ok()) {
    report = std::move(*parsed);
    report.clear_unreachable();
  } else {
    report.set_unreachable(base::valid_utf8(parsed.status().message()));
  }
  report.set_host(plan_.hosts[index].name);
  is_answered_[index] = true;
  report_progress();
  if (--open_ == 0) events_.on_done(std::move(reports_));
}

void HostCleanups::Core::report_progress() const {
  if (!events_.on_progress) return;
  std::vector<std::string> waiting;
  for (std::size_t i = 0; i < plan_.hosts.size(); ++i) {
    if (!is_answered_[i]) waiting.push_back(plan_.hosts[i].name);
  }
  events_.on_progress(waiting);
}

HostCleanups::HostCleanups(base::Loop& loop, Bootstrap* bootstrap, CleanupPlan plan, CleanupEvents events)
    : core_(std::make_shared<Core>(loop, bootstrap, std::move(plan), std::move(events))) {}

HostCleanups::~HostCleanups() {
  core_->drop();
}

void HostCleanups::start() {
  core_->start();
}

base::Result<v1::CleanupReport> parse_cleanup_report(const CommandResult& result) {
  if (result.exit_status != 0) {
    const std::string errors(base::trim(result.errors));
    return base::unavailable("muster-agent --cleanup failed there with exit code {}{}{}", result.exit_status,
                             errors.empty() ? "" : ": ", base::printable(errors));
  }
  proto::FrameReader frames;
  frames.feed(result.output);
  MUSTER_ASSIGN_OR_RETURN(const auto frame, frames.next());
  v1::CleanupReport report;
  if (!frame || !frames.is_empty() || !report.ParseFromString(*frame)) {
    return base::invalid_argument("cannot read the answer of its agent: is that agent from another build?");
  }
  return report;
}

}  // namespace muster::launcherd::cleanup
