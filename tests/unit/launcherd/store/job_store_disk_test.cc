// Tests a disk that is full, and later is not.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::job_store_disk_test {
namespace {

using launcherd::StoreReader;
using ::testing::HasSubstr;

constexpr std::size_t kLong = 256 * 1024;  // fits into no gap of a full disk

// A file system of 4 MiB.
class SmallDisk {
 public:
  SmallDisk() : path_(temp_ / "disk") {
    ::mkdir(path_.c_str(), 0700);
    is_mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=4m,mode=0700") == 0;
  }
  ~SmallDisk() { EXPECT_TRUE(!is_mounted_ || ::umount(path_.c_str()) == 0); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_mounted() const { return is_mounted_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

  void fill() const {
    const base::UniqueFd file(::open(path("ballast").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    for (const std::size_t size : {std::size_t{65536}, std::size_t{4096}, std::size_t{1}}) {
      const std::string block(size, 'x');
      while (::write(file.get(), block.data(), block.size()) > 0) {
      }
    }
  }
  void make_room() const { EXPECT_EQ(::unlink(path("ballast").c_str()), 0); }

 private:
  TempDir temp_;
  std::string path_;
  bool is_mounted_ = false;
};

#define SKIP_WITHOUT(disk) \
  if (!(disk).is_mounted()) GTEST_SKIP() << "a small file system cannot be mounted: run as root"

TEST(JobStoreDisk, SubmissionsAreRefusedAndNothingAnsweredIsLost) {
  const SmallDisk disk;
  SKIP_WITHOUT(disk);
  const std::string path = disk.path("jobs.sqlite");
  {
    StoreRig rig(path);
    ASSERT_TRUE(rig.status().ok()) << rig.status();
    ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting)}).ok());
    disk.fill();
    NewJob large = new_job("bbbbbbbb", "request");
    large.spec = std::string(kLong, 'x');
    const base::Status refused = rig.append({plain_event("aaaaaaaa", "refused"), large});
    EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("jobs.sqlite"));
    const auto job = rig.read<launcherd::StoredJob>([](StoreReader& reader) { return reader.job(job_id("aaaaaaaa")); });
    ASSERT_TRUE(job.ok()) << job.status();  // running jobs continue and can be read
    EXPECT_EQ(job->last_sequence, 1u);
    disk.make_room();
    EXPECT_TRUE(rig.append({large}).ok());  // the same request: the store kept nothing of the first try
    EXPECT_TRUE(rig.append({plain_event("aaaaaaaa", "two")}).ok());
  }
  auto reader = StoreReader::open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->spec(job_id("bbbbbbbb"))->size(), kLong);
  EXPECT_EQ(reader->events(job_id("aaaaaaaa"), 1, 10)->at(0).message, "two");
}

TEST(JobStoreDisk, WhatHasHappenedWaitsForRoomInItsOrder) {
  const SmallDisk disk;
  SKIP_WITHOUT(disk);
  StoreRig rig(disk.path("jobs.sqlite"));
  ASSERT_TRUE(rig.status().ok()) << rig.status();
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting)}).ok());
  disk.fill();
  std::vector<std::string> written;
  int refused = 0;
  const auto record = [&](const std::string& text, NewEvent event) {
    rig.store().record({std::move(event)}, [&, text](base::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      written.push_back(text);
      rig.done();
    });
  };
  record("long", plain_event("aaaaaaaa", std::string(kLong, 'x')));
  rig.store().append({new_job("bbbbbbbb")}, [&](base::Status status) {
    if (status.code() == Code::kResourceExhausted) ++refused;
    rig.done();
  });
  ASSERT_TRUE(rig.run_until(2));  // the first append and the refusal
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(written.empty());
  record("short", step("aaaaaaaa", JobState::kRunning));  // would fit, but must stay behind
  EXPECT_EQ(rig.append({new_job("cccccccc")}).code(), Code::kResourceExhausted);
  EXPECT_TRUE(written.empty());
  disk.make_room();
  ASSERT_TRUE(rig.run_until(5));
  EXPECT_THAT(written, ::testing::ElementsAre("long", "short"));
  EXPECT_TRUE(rig.append({new_job("bbbbbbbb")}).ok());
  const auto job = rig.read<launcherd::StoredJob>([](StoreReader& reader) { return reader.job(job_id("aaaaaaaa")); });
  EXPECT_EQ(job->state, JobState::kRunning);
  EXPECT_EQ(job->last_sequence, 3u);
}

TEST(JobStoreDisk, AnEndOnAFullDiskSaysWhatIsLost) {
  const SmallDisk disk;
  SKIP_WITHOUT(disk);
  const std::string path = disk.path("jobs.sqlite");
  base::Loop loop;
  base::Status result;
  {
    auto store = launcherd::JobStore::open(path, loop);
    ASSERT_TRUE(store.ok()) << store.status();
    disk.fill();
    NewJob job = new_job("aaaaaaaa");
    job.spec = std::string(kLong, 'x');
    (*store)->record({job}, [&](base::Status status) {
      result = std::move(status);
      loop.stop();
    });
  }
  loop.run();
  EXPECT_EQ(result.code(), Code::kResourceExhausted) << result;
}

TEST(JobStoreDisk, AFullDiskAtTheStartIsSaid) {
  const SmallDisk disk;
  SKIP_WITHOUT(disk);
  disk.fill();
  StoreRig rig(disk.path("jobs.sqlite"));
  ASSERT_FALSE(rig.status().ok());
  EXPECT_EQ(rig.status().code(), Code::kResourceExhausted) << rig.status();
  disk.make_room();
  EXPECT_TRUE(StoreRig(disk.path("jobs.sqlite")).status().ok());  // and leaves no file behind that disturbs
}

}  // namespace
}  // namespace muster::testing_store::job_store_disk_test
