#include "agent/process/session_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::session_dir_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class SessionDirTest : public ::testing::Test {
 protected:
  SessionDir create() {
    auto session = SessionDir::create(root_, "abcdefg2", "0");
    EXPECT_TRUE(session.ok()) << session.status();
    return std::move(*session);
  }

  testing_support::TempDir dir_;
  const std::string& root_ = dir_.path();
};

TEST_F(SessionDirTest, IsPrivateAndRemovedWithAllInIt) {
  const SessionDir session = create();
  EXPECT_EQ(session.path(), root_ + "/muster-" + std::to_string(::geteuid()) + "/abcdefg2-0");
  struct stat info {};
  ASSERT_EQ(::stat(session.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
  fs::create_directories(session.path() + "/a/b");
  std::ofstream(session.path() + "/a/b/c") << "x";
  fs::create_directory(root_ + "/other");
  std::ofstream(root_ + "/other/kept") << "x";
  fs::create_symlink(root_ + "/other", session.path() + "/a/link");
  EXPECT_TRUE(session.remove().ok());
  EXPECT_FALSE(fs::exists(root_ + "/muster-" + std::to_string(::geteuid())));
  EXPECT_TRUE(fs::exists(root_ + "/other/kept"));
  EXPECT_TRUE(session.remove().ok());  // again is fine
}

TEST_F(SessionDirTest, TheParentStaysForOtherJobs) {
  const SessionDir session = create();
  auto other = SessionDir::create(root_, "bcdefgh2", "0");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(session.remove().ok());
  EXPECT_TRUE(fs::exists(other->path()));
  EXPECT_EQ(list_sessions(root_, "bcdefgh2").value(), std::vector<std::string>{other->path()});
  EXPECT_TRUE(list_sessions(root_, "abcdefg2").value().empty());
}

TEST_F(SessionDirTest, TheLockTellsWhoLives) {
  SessionDir session = create();
  EXPECT_EQ(SessionDir::create(root_, "abcdefg2", "0").status().code(), base::Code::kAlreadyExists);
  EXPECT_TRUE(look_at_session(session.path())->is_alive);
  session.close_lock();
  const auto dead = look_at_session(session.path());
  ASSERT_TRUE(dead.ok());
  EXPECT_FALSE(dead->is_alive);
  EXPECT_TRUE(dead->lock.valid());
}

TEST_F(SessionDirTest, TheLeaseIsWritten) {
  const SessionDir session = create();
  const auto passed = [&session] { return look_at_session(session.path())->lease_has_passed; };
  EXPECT_TRUE(passed());
  session.write_lease(std::chrono::steady_clock::now() + 1h);
  EXPECT_FALSE(passed());
  session.write_lease(std::chrono::steady_clock::now() - 1ms);
  EXPECT_TRUE(passed());
  session.write_lease(std::nullopt);
  EXPECT_TRUE(passed());
  EXPECT_EQ(base::read_file(session.path() + "/alive")->size(), 80U);
}

TEST_F(SessionDirTest, WhatIsNotOursIsNotTouched) {
  fs::create_directory(root_ + "/muster-" + std::to_string(::geteuid()));
  fs::permissions(root_ + "/muster-" + std::to_string(::geteuid()), fs::perms(0755));
  EXPECT_EQ(SessionDir::create(root_, "abcdefg2", "0").status().code(), base::Code::kPermissionDenied);
  fs::create_symlink("/etc", root_ + "/link");
  EXPECT_EQ(look_at_session(root_ + "/link").status().code(), base::Code::kFailedPrecondition);
  EXPECT_FALSE(remove_session(root_ + "/link").ok());
  EXPECT_EQ(look_at_session(root_ + "/gone").status().code(), base::Code::kNotFound);
}

TEST_F(SessionDirTest, OnlyWhatIsSurelyNotThereIsDead) {
  EXPECT_TRUE(list_all_sessions(root_ + "/none").value().empty());
  std::ofstream(root_ + "/muster-" + std::to_string(::geteuid())) << "x";
  EXPECT_FALSE(list_all_sessions(root_).ok());
  fs::remove(root_ + "/muster-" + std::to_string(::geteuid()));

  SessionDir session = create();
  EXPECT_TRUE(may_be_living_session(session.path(), "abcdefg2"));
  EXPECT_FALSE(may_be_living_session(session.path(), "bcdefgh2"));
  session.close_lock();
  EXPECT_FALSE(may_be_living_session(session.path(), "abcdefg2"));
  EXPECT_FALSE(may_be_living_session(root_ + "/abcdefg2-9", "abcdefg2"));
  EXPECT_FALSE(may_be_living_session("", ""));
  fs::remove(session.path() + "/alive");
  fs::create_symlink("elsewhere", session.path() + "/alive");  // one that cannot be opened
  EXPECT_TRUE(may_be_living_session(session.path(), "abcdefg2"));
}

}  // namespace
}  // namespace muster::agent::session_dir_test
