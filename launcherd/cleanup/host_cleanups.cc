#include "launcherd/cleanup/host_cleanups.h"

namespace muster::launcherd::inline cleanup {

std::vector<std::string> cleanup_arguments(const CleanupPlan& plan) {
  std::vector<std::string> words{"--cleanup"};
  if (plan.dry_run) words.emplace_back("--dry-run");
  if (!plan.job.empty()) words.insert(words.end(), {"--job", plan.job});
  if (!plan.session_root.empty()) words.insert(words.end(), {"--session-root", plan.session_root});
  return words;
}

std::vector<v1::CleanupReport> cleanup_reports(const CleanupPlan& plan, const HostCommand::Results& results) {
  return host_reports<v1::CleanupReport>(plan.hosts, results, "--cleanup");
}

}  // namespace muster::launcherd::cleanup
