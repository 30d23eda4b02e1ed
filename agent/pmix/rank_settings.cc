#include "agent/pmix/rank_settings.h"

#include <array>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::agent::pmix {
namespace {

// Without this setting, Open MPI 4 searches for its own daemon or Slurm's and finds none. Then each rank becomes a
// world of one.
constexpr std::pair<const char*, const char*> kOnlyByPmix{"OMPI_MCA_schizo", "ompi"};
// The buffer type of a libpmix without debugging.
constexpr const char* kPlainBuffers = "PMIX_BFROP_BUFFER_NON_DESC";

}  // namespace

std::vector<std::pair<std::string, std::string>> rank_settings(const RankSettingsInput& input,
                                                               const base::Environment& user_set) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"PMIX_NAMESPACE", input.nspace},
      {"PMIX_RANK", fmt::format("{}", input.rank)},
      {"PMIX_SECURITY_MODE", "native"},
      {"PMIX_BFROP_BUFFER_TYPE", kPlainBuffers},
      {"PMIX_GDS_MODULE", "hash"},
      {"PMIX_SERVER_TMPDIR", input.directory},
      {"PMIX_SYSTEM_TMPDIR", input.directory},
      {"PMIX_HOSTNAME", input.host_name},
      kOnlyByPmix,
  };
  // Sets one variable for each dialect. A rank uses the newest one that it knows. PMIX_VERSION is left out, so that
  // the dialect decides.
  const std::string uri = fmt::format("{}-server.{};tcp4://127.0.0.1:{}", input.server, input.host, input.port);
  for (const char* dialect :
       {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4", "PMIX_SERVER_URI41"}) {
    settings.emplace_back(dialect, uri);
  }
  const auto put = [&](const char* name, const std::string& value) {
    if (!user_set.get(name)) settings.emplace_back(name, value);
  };
  // Muster binds ranks to cores itself, so turn Open MPI's binding off.
  put("OMPI_MCA_hwloc_base_binding_policy", "none");
  put("OMPI_MCA_orte_externally_bound", "1");
  if (input.is_crowded) put("OMPI_MCA_mpi_yield_when_idle", "1");
  // Debian's Open MPI 4.1 uses UCX for MPI's windows even where UCX refuses to use TCP for them. Without UCX, Open
  // MPI uses its own implementation.
  if (!input.has_rdma) put("OMPI_MCA_osc", "^ucx");
  if (!input.shared_memory.empty()) {
    put("OMPI_MCA_btl_vader_backing_directory", input.shared_memory);  // Open MPI 4
    put("OMPI_MCA_btl_sm_backing_directory", input.shared_memory);     // Open MPI 5
    put("OMPI_MCA_osc_sm_backing_directory", input.shared_memory);
  }
  return settings;
}

void set_without_server(base::Environment& environment) {
  const std::vector<std::pair<std::string, std::string>> entries = environment.entries();
  for (const auto& [name, value] : entries) {
    if (is_in_the_way(name)) environment.unset(name);
  }
  environment.set(kOnlyByPmix.first, kOnlyByPmix.second);
}

bool is_in_the_way(std::string_view name) {
  static constexpr auto kPrefixes =
      std::to_array<std::string_view>({"PMIX_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_schizo", "OMPI_MCA_pmix",
                                       "OMPI_MCA_initial_wdir", "ORTE_"});
  return !name.starts_with("PMIX_MCA_") && base::starts_with_any(name, kPrefixes);
}

}  // namespace muster::agent::pmix
