#include "launcherd/daemon/retention.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "launcherd/daemon/job_view.h"
#include "model/job_state.h"
#include "proto/job_spec_convert.h"

namespace muster::launcherd {
namespace {

constexpr std::chrono::minutes kPeriod{1};
// At a time: their files are removed on the loop.
constexpr int kMostOfATurn = 100;

}  // namespace

Retention::Retention(base::Loop& loop, const base::Clock& clock, JobStore* store, std::string jobs_directory)
    : clock_(clock),
      store_(store),
      jobs_directory_(std::move(jobs_directory)),
      timer_(loop.every(kPeriod, [this] { forget_due(); })) {}

void Retention::add(const base::JobId& job, base::WallTime forget_at) {
  due_.emplace(forget_at, job);
}

base::Result<Retention::Page> Retention::read_page(StoreReader& reader, const std::string& token) {
  MUSTER_ASSIGN_OR_RETURN(const JobPage jobs, reader.jobs(StoreReader::Which::kAll, kLongestPage, token));
  Page page{.ended = {}, .next = jobs.next};
  for (const StoredJob& job : jobs.jobs) {
    if (!job.ended) continue;
    const auto spec = stored_spec(reader, job.id);
    const auto submission = spec.ok() ? proto::submission_of(spec->request()) : spec.status();
    const std::chrono::seconds kept = submission.ok() ? submission->retention : proto::Submission().retention;
    page.ended.emplace(*job.ended + kept, job.id);
  }
  return page;
}

void Retention::load_page(const std::string& token) {
  store_->read<Page>([token](StoreReader& reader) { return read_page(reader, token); },
                     [this, is_alive = std::weak_ptr<bool>(is_alive_)](base::Result<Page> page) {
                       // An unreadable store is told by everything else; what is not found now is kept.
                       if (is_alive.expired() || !page.ok()) return;
                       due_.merge(page->ended);
                       forget_due();
                       if (!page->next.empty()) load_page(page->next);
                     });
}

void Retention::forget_due() {
  const base::WallTime now = clock_.wall();
  for (int count = 0; count < kMostOfATurn && !due_.empty() && due_.begin()->first <= now; ++count) {
    forget(due_.begin()->second);
    due_.erase(due_.begin());
  }
}

// The records first: a job without output is still one, output without a job is nobody's.
void Retention::forget(const base::JobId& job) {
  store_->append({ForgetJob{job}}, [this, job, is_alive = std::weak_ptr<bool>(is_alive_)](const base::Status& status) {
    if (is_alive.expired()) return;
    if (!status.ok() && status.code() != base::Code::kNotFound) {
      add(job, clock_.wall() + kPeriod);  // the disk is full, say: later
      return;
    }
    std::error_code failed;  // what cannot be removed lies there for who can
    std::filesystem::remove_all(jobs_directory_ + "/" + job.str(), failed);
  });
}

}  // namespace muster::launcherd
