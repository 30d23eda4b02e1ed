// The part of JobManager for jobs that change their hosts or their size while they are open.
// Read it in this order: offers, reallocate, serve_waiting_jobs, resize.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/strings.h"
#include "launcherd/daemon/job_manager.h"
#include "launcherd/queue/host_share.h"
#include "launcherd/queue/more_slots.h"
#include "model/host_binding.h"

namespace muster::launcherd::inline daemon {
namespace {

// A host that may connect by itself at some time (--accept-agents). Only for the question whether waiting can help.
model::HostSpec host_that_may_join() {
  return {.name = "a host that joins", .slots = model::kMaxSlotsPerHost};
}

// Returns the hosts with the number of slots that the job shall have there. Without a number it gets all free ones.
base::Result<std::vector<model::HostSpec>> hosts_to_add(const v1::ResizeRequest& request, const HostTable& table,
                                                        const RunningJob& job) {
  std::vector<model::HostSpec> hosts;
  for (const v1::WantedHost& wanted : request.add_hosts()) {
    MUSTER_ASSIGN_OR_RETURN(const SlotHost* const listed, table.find(wanted.name()));
    if (wanted.slots() < 0 || wanted.slots() > model::kMaxSlotsPerHost) {
      return base::invalid_argument("add_hosts.slots: {} is not between 0 and {}", wanted.slots(),
                                    model::kMaxSlotsPerHost);
    }
    if (std::ranges::find(hosts, wanted.name(), &model::HostSpec::name) != hosts.end()) {
      return base::invalid_argument("add_hosts: {} is named twice", wanted.name());
    }
    model::HostSpec& host = hosts.emplace_back();
    host.name = wanted.name();
    host.slots = wanted.slots() > 0 ? wanted.slots() : job.size_on(host.name) + listed->free();
    if (*host.slots == 0) {
      return base::resource_exhausted("{} has no free slot, or gets no jobs now: see muster hosts", host.name);
    }
  }
  return hosts;
}

}  // namespace

std::vector<model::HostSpec> JobManager::offers(const base::JobId& id, Availability when) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.running == nullptr) return {};
  const OpenJob& job = found->second;
  const model::Placement own = job.running->allocation();
  if (when == Availability::kNow) return more_slots(job.need, own, hosts_.slots(), model::kMaxSlotsPerHost);
  std::vector<model::HostSpec> best = most_slots(job.need, own, hosts_.slots(), model::kMaxSlotsPerHost);
  if (surroundings_.more_hosts_may_join && job.need.request.hosts.empty()) best.push_back(host_that_may_join());
  return best;
}

base::Result<std::optional<model::HostShare>> JobManager::further_share(const base::JobId& id, const std::string& host,
                                                                        int ranks) const {
  const JobNeed& need = jobs_.at(id).need;
  MUSTER_ASSIGN_OR_RETURN(const SlotHost* const listed, hosts_.find(host));
  if (listed->shape == nullptr) return std::optional<model::HostShare>();
  model::PlacedHost placed{.host = listed->host, .slots = listed->slots, .ranks = {}};
  placed.ranks.resize(static_cast<std::size_t>(ranks));
  const auto requests = model::requests_on(need.places, need.share.role_masks, placed);
  auto share = share_of(need.share, *listed->shape, listed->use, listed->all_slots(), requests);
  if (!share.ok()) return share.status().with_context(host);
  return std::optional(*std::move(share));
}

void JobManager::reallocate(const base::JobId& id, const Reallocation& change) {
  waiting_shares_.erase(id);  // the generation that waited has ended
  hosts_.release(change.before);
  hosts_.acquire(change.after);
  if (OpenJob* const job = find(id)) {
    queue_.count_use(job->group, change.after.size - job->used_slots);
    job->used_slots = change.after.size;
    job->need.request.np = std::max(change.after.size, 1);
    job->sized.changed_at = surroundings_.clock->now();
  }
  schedule();  // other jobs may use what this job has given back
}

void JobManager::count_generation(GenerationCause cause) {
  if (cause == GenerationCause::kFailure) ++counters_.generations_after_failure;
  if (cause == GenerationCause::kHostLost) ++counters_.generations_after_lost_host;
  if (cause == GenerationCause::kResize) ++counters_.generations_after_resize;
  if (cause == GenerationCause::kPreemption) ++counters_.generations_after_preemption;
  if (cause == GenerationCause::kGrowth) ++counters_.generations_after_growth;
}

// Jobs whose ranks have ended for lack of a host go before all that wait in the queue.
void JobManager::serve_waiting_jobs() {
  for (const base::JobId& id : std::set(waiting_for_hosts_)) {
    OpenJob* const job = find(id);
    if (job != nullptr && job->running != nullptr) job->running->hosts_changed();
  }
}

std::optional<int> JobManager::size_of(const base::JobId& id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.running == nullptr) return std::nullopt;
  return found->second.running->placement().size;
}

void JobManager::resize(const base::JobId& id, const v1::ResizeRequest& request, Reply<v1::ResizeResponse> done) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) {
    return done(base::not_found("job {} is not open: it has ended or never existed", id.str()));
  }
  if (job->array) return done(check_running(*job));
  if (job->running == nullptr) {
    return done(base::failed_precondition(
        "job {} waits for slots, and only jobs that run can be resized: kill it, and submit it with another -np",
        id.str()));
  }
  if (request.size() < 0 || (request.size() == 0) == request.add_hosts().empty()) {
    return done(base::invalid_argument("size: give a number of ranks above 0, or add_hosts, but not both"));
  }
  const auto added = hosts_to_add(request, hosts_, *job->running);
  if (!added.ok()) return done(added.status());
  std::vector<model::HostSpec> further;
  std::int64_t size = request.size() > 0 ? request.size() : job->running->size();
  auto& wanted = job->need.request.hosts;
  const auto wanted_before = wanted;
  for (const model::HostSpec& host : *added) {
    const int missing = *host.slots - job->running->size_on(host.name);
    if (missing <= 0) continue;  // a repeated call changes nothing
    size += missing;
    further.push_back(host);
    further.back().slots = missing;
    if (!wanted.empty() && job->need.wanted(host.name) == nullptr) wanted.push_back({.name = host.name});
  }
  if (size > model::kMaxRanks) {
    return done(
        base::invalid_argument("add_hosts: {} ranks exceed the limit of {} for one job", size, model::kMaxRanks));
  }
  const base::Status resized = job->running->resize(static_cast<int>(size), std::move(further));
  if (!resized.ok()) wanted = wanted_before;
  if (!resized.ok()) return done(resized.with_context(fmt::format("job {}", id.str())));
  v1::ResizeResponse response;
  response.set_size(static_cast<int>(size));
  response.set_attempt(job->running->attempt());
  if (job->running->is_over()) return done(base::failed_precondition("job {}: it has ended", id.str()));
  record(id, {job->running->recovery()}, [done = std::move(done), response](const base::Status& status) {
    if (status.ok()) {
      done(response);
    } else {
      done(status);
    }
  });
}

}  // namespace muster::launcherd::daemon
