// Tests a store that cannot be written for a while, although its disk is not full: another process has the lock, or the
// disk fails. No past event may be lost.
#include <sqlite3.h>

#include <atomic>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::job_store_trouble_test {
namespace {

using launcherd::Database;
using launcherd::StoredJob;
using launcherd::StoreReader;

// Replaces SQLite's file system by one that fails to lock a write-ahead log while `fails` is set. Connections that open
// during its life use it.
class FailingDisk {
 public:
  FailingDisk() : own_(*sqlite3_vfs_find(nullptr)) {
    real() = sqlite3_vfs_find(nullptr);
    own_.zName = "failing";
    own_.szOsFile = static_cast<int>(sizeof(File)) + real()->szOsFile;
    own_.xOpen = open;
    sqlite3_vfs_register(&own_, 1);
  }
  ~FailingDisk() {
    sqlite3_vfs_register(real(), 1);
    sqlite3_vfs_unregister(&own_);
  }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  static std::atomic<bool>& fails() {
    static std::atomic<bool> value = false;
    return value;
  }

 private:
  // The file of the real file system follows it in memory.
  struct File {
    sqlite3_file base;
    sqlite3_io_methods methods;
  };
  static sqlite3_vfs*& real() {
    static sqlite3_vfs* value = nullptr;
    return value;
  }
  static sqlite3_file* inner(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
  }

  template <auto Method, typename... Arguments>
  static int pass(sqlite3_file* file, Arguments... arguments) {
    return (inner(file)->pMethods->*Method)(inner(file), arguments...);
  }

  static int lock(sqlite3_file* file, int offset, int count, int flags) {
    if (fails() && (flags & SQLITE_SHM_LOCK) != 0) return SQLITE_IOERR_SHMLOCK;
    return inner(file)->pMethods->xShmLock(inner(file), offset, count, flags);
  }

  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    auto* const own = reinterpret_cast<File*>(file);
    own->base.pMethods = nullptr;
    inner(file)->pMethods = nullptr;
    const int result = real()->xOpen(real(), name, inner(file), flags, out);
    if (inner(file)->pMethods == nullptr) return result;
    using M = sqlite3_io_methods;
    own->methods = {.iVersion = 2,
                    .xClose = pass<&M::xClose>,
                    .xRead = pass<&M::xRead, void*, int, sqlite3_int64>,
                    .xWrite = pass<&M::xWrite, const void*, int, sqlite3_int64>,
                    .xTruncate = pass<&M::xTruncate, sqlite3_int64>,
                    .xSync = pass<&M::xSync, int>,
                    .xFileSize = pass<&M::xFileSize, sqlite3_int64*>,
                    .xLock = pass<&M::xLock, int>,
                    .xUnlock = pass<&M::xUnlock, int>,
                    .xCheckReservedLock = pass<&M::xCheckReservedLock, int*>,
                    .xFileControl = pass<&M::xFileControl, int, void*>,
                    .xSectorSize = pass<&M::xSectorSize>,
                    .xDeviceCharacteristics = pass<&M::xDeviceCharacteristics>,
                    .xShmMap = pass<&M::xShmMap, int, int, int, void volatile**>,
                    .xShmLock = lock,
                    .xShmBarrier = [](sqlite3_file* of) { inner(of)->pMethods->xShmBarrier(inner(of)); },
                    .xShmUnmap = pass<&M::xShmUnmap, int>,
                    .xFetch = nullptr,
                    .xUnfetch = nullptr};
    own->base.pMethods = &own->methods;
    return result;
  }

  sqlite3_vfs own_;
};

class JobStoreTrouble : public ::testing::Test {
 protected:
  std::string path() const { return temp_ / "jobs.sqlite"; }

  // Records the end of a job. That fails at first, which an append of the same turn reports. `mend` ends the trouble.
  void check_that_the_end_is_kept(StoreRig& rig, const std::function<void()>& mend) {
    base::Status recorded = base::error(Code::kUnknown, "not yet");
    base::Status appended;
    rig.store().record({step("aaaaaaaa", JobState::kFailed)}, [&](base::Status status) {
      recorded = std::move(status);
      rig.done();
    });
    rig.store().append({new_job("bbbbbbbb")}, [&](base::Status status) {
      appended = std::move(status);
      rig.done();
    });
    ASSERT_TRUE(rig.run_until(2));  // one callback came before
    EXPECT_EQ(appended.code(), Code::kUnavailable) << appended;
    EXPECT_EQ(recorded.code(), Code::kUnknown) << "it waits";
    EXPECT_EQ(rig.append({new_job("cccccccc")}).code(), Code::kUnavailable) << "what may be refused is, meanwhile";
    mend();
    ASSERT_TRUE(rig.run_until(4));
    EXPECT_TRUE(recorded.ok()) << recorded;
    const auto job = rig.read<StoredJob>([](StoreReader& reader) { return reader.job(job_id("aaaaaaaa")); });
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state, JobState::kFailed);
    EXPECT_TRUE(rig.append({new_job("bbbbbbbb")}).ok());
  }

  TempDir temp_;
};

TEST_F(JobStoreTrouble, AnEndWaitsWhileAnotherProcessHasTheLock) {
  StoreRig rig(path());
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting)}).ok());
  auto other = Database::open(path(), Database::Access::kWrite);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(other->run("BEGIN IMMEDIATE").ok());
  check_that_the_end_is_kept(rig, [&] { ASSERT_TRUE(other->run("COMMIT").ok()); });
}

TEST_F(JobStoreTrouble, AnEndWaitsWhileTheDiskFails) {
  const FailingDisk disk;
  StoreRig rig(path());
  ASSERT_TRUE(rig.status().ok()) << rig.status();
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting)}).ok());
  FailingDisk::fails() = true;
  check_that_the_end_is_kept(rig, [] { FailingDisk::fails() = false; });
}

// A batch that breaks its transaction must not affect the others.
TEST_F(JobStoreTrouble, ABrokenBatchLeavesTheOthersAlone) {
  StoreRig rig(path());
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting)}).ok());
  ASSERT_TRUE(rig.append({new_job("bbbbbbbb"), step("bbbbbbbb", JobState::kStarting)}).ok());
  auto other = Database::open(path(), Database::Access::kWrite);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(other->run("UPDATE jobs SET state = 99 WHERE id = 'bbbbbbbb'").ok());  // damages a row
  std::vector<Code> answers(3, Code::kUnknown);
  int place = 0;
  for (const char* const id : {"aaaaaaaa", "bbbbbbbb", "aaaaaaaa"}) {
    rig.store().record({plain_event(id, "x")}, [&answers, &rig, at = place++](base::Status status) {
      answers[static_cast<std::size_t>(at)] = status.code();
      rig.done();
    });
  }
  ASSERT_TRUE(rig.run_until(5));
  EXPECT_THAT(answers, ::testing::ElementsAre(Code::kOk, Code::kDataLoss, Code::kOk));
}

}  // namespace
}  // namespace muster::testing_store::job_store_trouble_test
