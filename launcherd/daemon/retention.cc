#include "launcherd/daemon/retention.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "launcherd/daemon/job_view.h"
#include "model/job_state.h"
#include "proto/job_spec_convert.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr std::chrono::minutes kPeriod{1};
// Number of jobs removed in one turn of the loop. It is limited because the loop thread removes their files.
constexpr int kMostOfATurn = 100;
constexpr std::chrono::milliseconds kTurnPause{10};

}  // namespace

Retention::Retention(base::Loop& loop, const base::Clock& clock, JobStore* store, std::string jobs_directory,
                     OnLine on_line)
    : loop_(loop),
      clock_(clock),
      store_(store),
      jobs_directory_(std::move(jobs_directory)),
      on_line_(std::move(on_line)),
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

// Lists the folders first, then the records. A folder is created after its record, so a folder without a record never
// gets one later.
base::Result<Retention::Jobs> Retention::find_unknown(StoreReader& reader, const std::string& jobs_directory) {
  Jobs found;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(jobs_directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (const auto job = base::JobId::parse(at->path().filename().string()); job.ok()) found.push_back(*job);
  }
  Jobs unknown;
  for (const base::JobId& job : found) {
    const auto stored = reader.job(job);
    if (!stored.ok() && stored.status().code() != base::Code::kNotFound) return stored.status();
    if (!stored.ok()) unknown.push_back(job);
  }
  return unknown;
}

void Retention::load() {
  load_page("");
  store_->read<Jobs>([directory = jobs_directory_](StoreReader& reader) { return find_unknown(reader, directory); },
                     gate_.wrap([this](base::Result<Jobs> unknown) {
                       // Ignore the error, because other components report an unreadable store.
                       if (!unknown.ok()) return;
                       unknown_ = *std::move(unknown);
                       forget_due();
                     }));
}

void Retention::load_page(const std::string& token) {
  store_->read<Page>([token](StoreReader& reader) { return read_page(reader, token); },
                     gate_.wrap([this](base::Result<Page> page) {
                       // Ignore the error, because other components report an unreadable store. Jobs that are not found
                       // now are kept.
                       if (!page.ok()) return;
                       due_.merge(page->ended);
                       forget_due();
                       if (!page->next.empty()) load_page(page->next);
                     }));
}

void Retention::forget_due() {
  const base::WallTime now = clock_.wall();
  for (int count = 0; count < kMostOfATurn && !due_.empty() && due_.begin()->first <= now; ++count) {
    forget(due_.begin()->second);
    due_.erase(due_.begin());
  }
  remove_unknown();
}

// Goes on in later turns of the loop if there are many.
void Retention::remove_unknown() {
  for (int count = 0; count < kMostOfATurn && !unknown_.empty(); ++count) {
    remove_output(unknown_.back());
    unknown_.pop_back();
  }
  if (!unknown_.empty()) next_turn_ = loop_.after(kTurnPause, [this] { remove_unknown(); });
}

base::Result<Retention::Jobs> Retention::find_elements(StoreReader& reader, const base::JobId& array) {
  Jobs found;
  for (int first = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.elements(array, first, kLongestPage));
    if (page.empty()) return found;
    for (const StoredElement& element : page) found.push_back(element.id);
    first = page.back().index + 1;
  }
}

// Removes the output of a job. If that fails, the next start of launcherd tries again.
void Retention::remove_output(const base::JobId& job) {
  const std::string folder = jobs_directory_ + "/" + job.str();
  std::error_code failed;
  std::filesystem::remove_all(folder, failed);
  if (failed)
    on_line_(fmt::format("cannot remove the output of job {} in {}: {}", job.str(), folder, failed.message()));
}

// Removes the records first. A job without output is still complete, but output without a job has no owner.
void Retention::forget(const base::JobId& job) {
  store_->read<Jobs>([job](StoreReader& reader) { return find_elements(reader, job); },
                     gate_.wrap([this, job](base::Result<Jobs> elements) {
                       if (elements.ok()) return forget(job, *std::move(elements));
                       if (elements.status().code() != base::Code::kNotFound) add(job, clock_.wall() + kPeriod);
                     }));
}

// The store removes the elements of an array with the array.
void Retention::forget(const base::JobId& job, Jobs elements) {
  store_->append({ForgetJob{job}}, gate_.wrap([this, job, elements = std::move(elements)](const base::Status& status) {
    if (!status.ok() && status.code() != base::Code::kNotFound) {
      add(job, clock_.wall() + kPeriod);  // try again later, because the disk may be full
      return;
    }
    remove_output(job);
    unknown_.insert(unknown_.end(), elements.begin(), elements.end());
    remove_unknown();
  }));
}

}  // namespace muster::launcherd::daemon
