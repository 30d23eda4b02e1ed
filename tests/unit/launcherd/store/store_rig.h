// Helpers for tests of the job store: jobs with given names, and a loop that runs until calls were answered.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "launcherd/store/batch_writer.h"
#include "launcherd/store/job_store.h"
#include "launcherd/store/schema.h"
#include "launcherd/store/state_directory.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::testing_store {

using base::Code;
using launcherd::Batch;
using launcherd::NewEvent;
using launcherd::NewJob;
using model::JobState;
using model::RankState;
using testing_support::TempDir;

inline base::JobId job_id(const std::string& text) {
  return *base::JobId::parse(text);
}

inline base::WallTime at(long seconds) {
  return base::WallTime(std::chrono::seconds(1'700'000'000 + seconds));
}

inline NewJob new_job(const std::string& id, const std::string& request = "") {
  return NewJob{.id = job_id(id),
                .request_id = request,
                .name = "name of " + id,
                .priority = 3,
                .submitted = at(0),
                .reason = "waits",
                .spec = "spec of " + id,
                .environment = "SECRET of " + id};
}

inline NewEvent plain_event(const std::string& id, const std::string& message) {
  return NewEvent{.job = job_id(id), .time = at(1), .message = message};
}

inline NewEvent step(const std::string& id, JobState to, const std::string& reason = "because",
                     std::optional<int> exit_code = {}) {
  return NewEvent{.job = job_id(id),
                  .time = at(2),
                  .message = "to " + std::string(model::name_of(to)),
                  .job_step = launcherd::JobStep{.to = to, .reason = reason, .exit_code = exit_code}};
}

inline launcherd::BatchWriter open_writer(const std::string& path) {
  auto database = launcherd::open_store(path, launcherd::store_migrations());
  if (!database.ok()) ADD_FAILURE() << database.status();
  auto writer = launcherd::BatchWriter::create(std::move(*database));
  if (!writer.ok()) ADD_FAILURE() << writer.status();
  return std::move(*writer);
}

inline base::Status commit(launcherd::BatchWriter& writer, const Batch& batch) {
  const Batch* const only = &batch;
  return writer.commit({&only, 1}).front();
}

// A store, its loop and a time limit. It collects all results.
class StoreRig {
 public:
  explicit StoreRig(const std::string& path) {
    auto opened = launcherd::JobStore::open(path, loop_);
    status_ = opened.status();
    if (opened.ok()) store_ = std::move(*opened);
  }

  const base::Status& status() const { return status_; }
  launcherd::JobStore& store() { return *store_; }
  base::Loop& loop() { return loop_; }

  // Runs the loop until done() was called `count` times. Returns false after a minute.
  bool run_until(int count) {
    wanted_ = count;
    if (done_ >= wanted_) return true;
    bool is_late = false;
    const base::Timer limit = loop_.after(std::chrono::minutes(1), [this, &is_late] {
      is_late = true;
      loop_.stop();
    });
    loop_.run();
    return !is_late;
  }
  void done() {
    if (++done_ == wanted_) loop_.stop();
  }

  base::Status append(Batch batch) {
    return wait([&](auto committed) { store_->append(std::move(batch), std::move(committed)); });
  }
  base::Status record(Batch batch) {
    return wait([&](auto committed) { store_->record(std::move(batch), std::move(committed)); });
  }
  template <typename T>
  base::Result<T> read(std::function<base::Result<T>(launcherd::StoreReader&)> question) {
    std::optional<base::Result<T>> got;
    store_->read<T>(std::move(question), [this, &got](base::Result<T> result) {
      got = std::move(result);
      done();
    });
    if (!run_until(done_ + 1)) return base::error(Code::kDeadlineExceeded, "the store did not answer");
    return std::move(*got);
  }

 private:
  template <typename Put>
  base::Status wait(Put put) {
    base::Status result;
    put([this, &result](base::Status status) {
      result = std::move(status);
      done();
    });
    if (!run_until(done_ + 1)) return base::error(Code::kDeadlineExceeded, "the store did not answer");
    return result;
  }

  base::Loop loop_;
  base::Status status_;
  int done_ = 0;
  int wanted_ = 0;
  std::unique_ptr<launcherd::JobStore> store_;
};

}  // namespace muster::testing_store
