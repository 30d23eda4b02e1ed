// Kills a writing process by kill -9 at random moments, again and again on one store.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::job_store_crash_test {
namespace {

using launcherd::JobStore;
using launcherd::StateDirectory;
using launcherd::StoredEvent;
using launcherd::StoreReader;

constexpr int kKills = 50;
constexpr int kUnderWay = 8;  // number of batches in flight

constexpr std::int64_t kGroup = 3;  // events of one group

// Batch `n` adds one event to a job, a group of events to another one, and a job of its own.
Batch numbered_batch(std::int64_t n) {
  const std::string text = std::to_string(n);
  launcherd::NewEvents group{job_id("bbbbbbbb"), at(1), {}};
  for (std::int64_t i = 0; i < kGroup; ++i) {
    group.events.push_back({.message = std::to_string(kGroup * n + i), .rank_step = {}});
  }
  return {plain_event("aaaaaaaa", text), new_job(base::JobId::random().str(), "request " + text), std::move(group)};
}

// Appends batches from number `next` on. Writes the number of each committed batch to `acknowledged`. Runs in the
// child.
[[noreturn]] void append_until_killed(const std::string& path, std::int64_t next, int acknowledged) {
  base::Loop loop;
  const auto directory = StateDirectory::open(path);
  if (!directory.ok()) ::_exit(3);
  const auto store = JobStore::open(directory->database(), loop);
  if (!store.ok()) ::_exit(4);
  std::function<void()> append_one = [&] {
    const std::int64_t number = next++;
    (*store)->append(numbered_batch(number), [&, number](base::Status status) {
      if (!status.ok()) ::_exit(5);
      if (!base::write_all_blocking(acknowledged, &number, sizeof number).ok()) ::_exit(6);
      append_one();
    });
  };
  for (int i = 0; i < kUnderWay; ++i) append_one();
  loop.run();
  ::_exit(7);
}

class JobStoreCrash : public ::testing::Test {
 protected:
  // Runs a child until `acks` batches are committed and `more` has passed. Kills it, and returns the highest committed
  // number.
  std::int64_t run_and_kill(std::int64_t next, int acks, std::chrono::microseconds more) {
    auto pipe = base::make_pipe();
    EXPECT_TRUE(pipe.ok());
    const pid_t child = ::fork();
    if (child == 0) append_until_killed(temp_.path(), next, pipe->second.get());
    pipe->second.reset();
    std::int64_t highest = next - 1;
    const auto read_one = [&] {
      std::int64_t number = 0;
      const auto got = base::read_exactly_blocking(pipe->first.get(), &number, sizeof number);
      if (!got.ok() || !*got) return false;
      EXPECT_EQ(number, highest + 1) << "answered out of order";
      highest = number;
      return true;
    };
    for (int i = 0; i < acks && read_one(); ++i) {
    }
    const auto moment = std::chrono::steady_clock::now() + more;  // any moment of a commit, so do not wait for an event
    while (std::chrono::steady_clock::now() < moment) {
    }
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself with " << WEXITSTATUS(status);
    while (read_one()) {
    }
    return highest;
  }

  // Checks that the numbers of the events of `id` after `from` are `from`, `from` + 1, …. Returns how many events exist
  // in all.
  std::int64_t check_events(StoreReader& reader, const char* id, std::int64_t from) {
    while (true) {
      const auto page = reader.events(job_id(id), static_cast<std::uint64_t>(from), 1000);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->empty()) return from;
      for (const StoredEvent& event : *page) EXPECT_EQ(event.message, std::to_string(from++));
    }
  }

  TempDir temp_;
};

TEST_F(JobStoreCrash, NothingAnsweredIsLostAndNoBatchIsHalf) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::string path = temp_ / "jobs.sqlite";
  {
    launcherd::BatchWriter writer = open_writer(path);
    ASSERT_TRUE(commit(writer, {new_job("aaaaaaaa"), new_job("bbbbbbbb")}).ok());
  }
  std::int64_t count = 0;
  std::int64_t beyond = 0;  // batches on the disk whose result was not reported yet
  for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
    const int acks = std::uniform_int_distribution(0, 40)(random);
    const std::chrono::microseconds more(std::uniform_int_distribution(0, 3000)(random));
    const std::int64_t answered = run_and_kill(count, acks, more) + 1;
    launcherd::BatchWriter repaired = open_writer(path);
    auto reader = StoreReader::open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const std::int64_t a = check_events(*reader, "aaaaaaaa", count);
    EXPECT_EQ(check_events(*reader, "bbbbbbbb", kGroup * count), kGroup * a);
    for (std::int64_t n = count; n < a; ++n) {
      EXPECT_TRUE(reader->job_of_request("request " + std::to_string(n)).ok()) << n;
    }
    EXPECT_FALSE(reader->job_of_request("request " + std::to_string(a)).ok());
    EXPECT_GE(a, answered);
    EXPECT_LE(a, answered + kUnderWay);
    beyond += a - answered;
    count = a;
  }
  EXPECT_GT(count, 0);
  RecordProperty("batches", std::to_string(count));
  RecordProperty("beyond_the_answered", std::to_string(beyond));
}

}  // namespace
}  // namespace muster::testing_store::job_store_crash_test
