#include "cli/view/bootstrap_options.h"

#include <utility>

#include "base/build_id.h"

namespace muster::cli::inline view {

launcherd::BootstrapOptions bootstrap_options(const Reach& reach, std::string agent_path,
                                              launcherd::NoticeWriter& notices, bool verbose) {
  launcherd::BootstrapOptions bootstrap = reach.bootstrap;
  bootstrap.agent_path = std::move(agent_path);
  bootstrap.agent_id = base::build_id();
  bootstrap.on_note = [&notices, verbose](const std::string& host, const std::string& line) {
    if (verbose) notices.line(host + ": " + line);
  };
  bootstrap.on_stderr = [&notices](const std::string& host, const std::string& line) {
    notices.line(host + ": " + line);
  };
  return bootstrap;
}

}  // namespace muster::cli::view
