// The names of the scalars in Muster's files for TensorBoard, which makes a group of the part before the slash, and the
// values that several writers need. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/view/tensorboard_file.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

inline constexpr const char* kStepsTag = "job/steps_per_second";
inline constexpr const char* kOutputTag = "job/output_bytes_per_second";
inline constexpr const char* kGenerationTag = "job/generation";
inline constexpr const char* kHangsTag = "job/hangs";
inline constexpr const char* kEventsTag = "job/events";  // text

// Names of measured values of a host, for host_tag().
inline constexpr std::string_view kCpuPercent = "cpu_percent";
inline constexpr std::string_view kMemoryUsed = "memory_used_mib";
inline constexpr std::string_view kGpuPercent = "gpu_percent";
inline constexpr std::string_view kGpuMemoryUsed = "gpu_memory_used_mib";
inline constexpr std::string_view kHostOutput = "output_bytes_per_second";

// Returns "hosts_cpu_percent/n1": one group of graphs for each kind of value.
std::string host_tag(std::string_view what, std::string_view host);

// Adds "straggler_score/rank_3" for each of these ranks, and "straggler_score/host_n2" for their hosts. Scores are
// those of RankLateness: 1 as the best rank, 0 always last. `late` has the ranks that came last most often, so the
// score of a host counts only these.
void add_scores(const std::vector<v1::RankLateness>& late, std::vector<TensorboardValue>& to);

}  // namespace muster::cli::view
