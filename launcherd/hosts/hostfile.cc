#include "launcherd/hosts/hostfile.h"

#include "base/file.h"

namespace muster::launcherd::inline hosts {

base::Result<std::vector<model::HostSpec>> read_hostfile(const std::string& path) {
  const auto content = base::read_file(path, kMaxHostfileBytes);
  if (!content.ok()) return content.status().with_context("the hostfile cannot be read");
  return model::parse_hostfile(*content, path);
}

}  // namespace muster::launcherd::hosts
