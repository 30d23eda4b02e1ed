#include "launcherd/daemon/dependencies.h"

#include <algorithm>

#include "base/strings.h"
#include "proto/job_spec_convert.h"

namespace muster::launcherd::inline daemon {
namespace {

base::Result<base::JobId> find_awaited(StoreReader& reader, const std::string& word) {
  auto id = base::JobId::parse(word);
  if (!id.ok()) id = reader.job_by_prefix(word);
  const base::Status known = id.ok() ? reader.job(*id).status() : id.status();
  if (known.code() != base::Code::kNotFound) return id;
  return base::not_found("after: unknown job '{}'; an ended job is removed when its retention time is over",
                         base::printable(word));
}

}  // namespace

std::string how_ended(model::JobState state, int exit_code) {
  return fmt::format("ended as {} with exit code {}", model::name_of(state), exit_code);
}

base::Result<std::vector<model::JobDependency>> read_dependencies(StoreReader& reader, const After& after) {
  MUSTER_ASSIGN_OR_RETURN(const auto words, proto::dependencies_of(after));
  std::vector<model::JobDependency> all;
  std::vector<model::JobDependency> open;
  for (const model::DependencyWords& each : words) {
    auto id = find_awaited(reader, each.job);
    if (!id.ok()) return id.status().code() == base::Code::kNotFound ? id.status() : id.status().with_context("after");
    if (std::ranges::find(all, *id, &model::JobDependency::job) != all.end()) {
      return base::invalid_argument("after: job {} is named twice", id->str());
    }
    all.push_back({*id, each.condition});
    MUSTER_ASSIGN_OR_RETURN(const StoredJob job, reader.job(*id));
    switch (model::judge(each.condition, job.state)) {
      case model::Dependency::kMet:
        break;
      case model::Dependency::kWaits:
        open.push_back(all.back());
        break;
      case model::Dependency::kNever:
        return base::failed_precondition("after: job {} has {}; use {}:any, or rerun it and name the new job",
                                         id->str(), how_ended(job.state, job.exit_code.value_or(0)), id->str());
    }
  }
  return open;
}

base::Result<std::vector<model::JobDependency>> read_dependencies(StoreReader& reader,
                                                                  const v1::SubmitRequest& request) {
  const bool is_repeated = !request.request_id().empty() && reader.job_of_request(request.request_id()).ok();
  return is_repeated ? std::vector<model::JobDependency>() : read_dependencies(reader, request.after());
}

}  // namespace muster::launcherd::daemon
