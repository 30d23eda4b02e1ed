// Files of muster ensemble: parsing ends, and what it accepts has names that are folders of their own. The same bytes
// as
// --env-file: what it accepts are variables.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "cli/ensemble/ensemble_file.h"
#include "cli/hosts/env_file.h"
#include "cli/options/setting_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  if (const auto variables = muster::cli::parse_env_file(content, "e.env"); variables.ok()) {
    for (const std::string& variable : *variables) MUSTER_CHECK(muster::cli::check_variable(variable).ok());
  } else {
    MUSTER_CHECK(variables.status().message().starts_with("e.env:"));
  }
  const auto ensemble = muster::cli::parse_ensemble(content, "e.yaml");
  if (!ensemble.ok()) {
    MUSTER_CHECK(ensemble.status().message().starts_with("e.yaml:"));
    MUSTER_CHECK(ensemble.status().message().find('\n') == std::string::npos);
    return 0;
  }
  std::set<std::string_view> names;
  for (const muster::cli::EnsembleJob& job : ensemble->jobs) {
    MUSTER_CHECK(names.insert(job.name).second);
    MUSTER_CHECK(!job.name.empty() && job.name.find('/') == std::string::npos && job.name.front() != '.');
    MUSTER_CHECK(!job.arguments.empty());
  }
  return 0;
}
