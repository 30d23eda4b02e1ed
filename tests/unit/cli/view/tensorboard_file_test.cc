#include "cli/view/tensorboard_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/strings.h"
#include "tests/unit/cli/view/tensorboard_events.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::tensorboard_file_test {
namespace {

using testing::HasSubstr;
using testing_support::tensorboard_events_in;

constexpr base::WallTime kOneSecond{std::chrono::seconds(1)};

// Made by hand: wall_time 1, step 2, the value 0.5 of "a/b"; its checksums come from a loop over bits in Python.
TEST(TensorboardRecord, HasTheBytesOfTheFormat) {
  const std::vector<int> expected = {0x19, 0,    0,    0,    0,    0,    0,    0,    0x8b, 0xf1, 0x08, 0x28, 0x09, 0,
                                     0,    0,    0,    0,    0,    0xf0, 0x3f, 0x10, 0x02, 0x2a, 0x0c, 0x0a, 0x0a, 0x0a,
                                     0x03, 0x61, 0x2f, 0x62, 0x15, 0,    0,    0,    0x3f, 0xb9, 0x6a, 0x1a, 0x65};
  std::string bytes;
  for (const int byte : expected) bytes += static_cast<char>(byte);
  EXPECT_EQ(tensorboard_record(kOneSecond, 2, {{"a/b", 0.5}}), bytes);
}

TEST(TensorboardRecord, HoldsTextAndNumbersAndNoBadUtf8) {
  const auto events = testing_support::tensorboard_events(
      tensorboard_record(kOneSecond, 7, {{"n", 1e300}, {"n\xff", 2.0}, {"t", std::string("a\xff")}}));
  ASSERT_EQ(events.size(), 1U);
  ASSERT_EQ(events[0].summary().value_size(), 3);
  EXPECT_EQ(events[0].summary().value(1).tag(), "n\xef\xbf\xbd");
  EXPECT_EQ(events[0].summary().value(2).tensor().dtype(), 7);
  EXPECT_EQ(testing_support::texts_of(events), "a\xef\xbf\xbd\n");
}

TEST(TensorboardFile, MakesItsFolderAndNamesItselfForTensorboard) {
  const testing_support::TempDir directory;
  auto file = TensorboardFile::create("--tensorboard", directory / "runs/one", kOneSecond);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->path(), HasSubstr("/runs/one/events.out.tfevents.1."));
  EXPECT_TRUE((*file)->path().ends_with(fmt::format(".{}.muster", ::getpid())));
  EXPECT_TRUE((*file)->write(kOneSecond, 0, {{"a", 1.0}}).ok());
  EXPECT_TRUE((*file)->write(kOneSecond, 0, {}).ok());
  const auto events = tensorboard_events_in(directory / "runs/one");
  ASSERT_EQ(events.size(), 2U) << "an event without values is none";
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].summary().value(0).tag(), "a");
}

TEST(TensorboardFile, AFolderThatCannotBeMadeIsAnError) {
  const testing_support::TempDir directory;
  directory.write("plain", "a file");
  const auto file = TensorboardFile::create("--tensorboard", directory / "plain/runs", kOneSecond);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("--tensorboard: make directory "));
}

// RLIMIT_FSIZE stands for a full disk.
TEST(TensorboardFile, AFullDiskIsReportedOnce) {
  const testing_support::TempDir directory;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    auto file = TensorboardFile::create("--tensorboard", directory.path(), kOneSecond);
    const rlimit small{60, 60};
    if (!file.ok() || ::setrlimit(RLIMIT_FSIZE, &small) != 0) ::_exit(1);
    const std::vector<TensorboardValue> values = {{"a/long/tag/that/does/not/fit/into/sixty/bytes", 1.0}};
    const base::Status first = (*file)->write(kOneSecond, 1, values);
    const bool is_named = first.message().starts_with("--tensorboard: " + (*file)->path() + ": ");
    ::_exit(!first.ok() && is_named && (*file)->write(kOneSecond, 2, values).ok() ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace muster::cli::tensorboard_file_test
