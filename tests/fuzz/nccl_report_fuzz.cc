// Feeds bytes to the parser of NCCL's RAS reports. Findings must name only ranks of the job, in order.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "agent/evidence/nccl_report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::agent;
  const auto communicators = parse_nccl_report({reinterpret_cast<const char*>(data), size});
  if (!communicators.ok()) return 0;
  const NcclJob job{.size = 4, .ranks = {{100, 0}, {101, 1}}};
  for (const muster::model::NcclFinding& finding : nccl_findings(*communicators, job)) {
    if (finding.text.empty() || finding.text.size() > 1000) std::abort();
    if (!std::ranges::is_sorted(finding.ranks)) std::abort();
    for (const int rank : finding.ranks) {
      if (rank < 0 || rank >= job.size) std::abort();
    }
  }
  return 0;
}
