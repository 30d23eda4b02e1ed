#include "agent/proc/session_dir.h"

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
  EXPECT_TRUE(inspect_session(session.path())->is_alive);
  session.close_lock();
  const auto dead = inspect_session(session.path());
  ASSERT_TRUE(dead.ok());
  EXPECT_FALSE(dead->is_alive);
  EXPECT_TRUE(dead->lock.valid());
}

TEST_F(SessionDirTest, TheLeaseIsWritten) {
  const SessionDir session = create();
  const auto passed = [&session] { return inspect_session(session.path())->lease_has_passed; };
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
  EXPECT_EQ(inspect_session(root_ + "/link").status().code(), base::Code::kFailedPrecondition);
  EXPECT_FALSE(remove_session(root_ + "/link").ok());
  EXPECT_EQ(inspect_session(root_ + "/gone").status().code(), base::Code::kNotFound);
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

TEST_F(SessionDirTest, SessionsBehindALinkAreNeitherSeenNorRemoved) {
  const std::string home = root_ + "/home";
  fs::create_directories(home + "/projects-2024");
  fs::permissions(home, fs::perms(0700));
  const std::string parent = session_root(root_);
  fs::create_directory_symlink(home, parent);
  EXPECT_EQ(list_all_sessions(root_).status().code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(inspect_session(parent + "/projects-2024").status().code(), base::Code::kFailedPrecondition);
  EXPECT_FALSE(may_be_living_session(parent + "/projects-2024", "projects"));
  EXPECT_FALSE(remove_session(parent + "/projects-2024").ok());
  EXPECT_TRUE(fs::exists(home + "/projects-2024"));
}

TEST_F(SessionDirTest, AFolderOfFilesWithoutALockFileIsNoSession) {
  const SessionDir session = create();
  const std::string other = session_root(root_) + "/datasets-all";
  fs::create_directory(other);
  EXPECT_TRUE(inspect_session(other).ok()) << "an agent may have been killed before it made the file";
  std::ofstream(other + "/data") << "x";
  EXPECT_EQ(inspect_session(other).status().code(), base::Code::kFailedPrecondition);
}

TEST_F(SessionDirTest, AnotherRootStandsInWhereTheNameIsTaken) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  const std::string usual = session_root(root_);
  fs::create_directory(usual);
  ASSERT_EQ(::chown(usual.c_str(), 4242, 4242), 0);
  EXPECT_EQ(check_session_root(root_).code(), base::Code::kPermissionDenied);
  const SessionDir first = create();
  const std::string parent = fs::path(first.path()).parent_path();
  EXPECT_TRUE(is_session_root(parent)) << parent;
  EXPECT_TRUE(parent.starts_with(usual + "-")) << parent;
  auto second = SessionDir::create(root_, "bcdefgh2", "0");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(fs::path(second->path()).parent_path(), parent);
  EXPECT_EQ(list_all_sessions(root_)->size(), 2U);
  EXPECT_TRUE(inspect_session(first.path())->is_alive);
  EXPECT_TRUE(first.remove().ok());
  EXPECT_TRUE(second->remove().ok());
  EXPECT_FALSE(fs::exists(parent));
  EXPECT_TRUE(list_all_sessions(root_)->empty());
  EXPECT_FALSE(is_session_root(usual + "-work"));
  EXPECT_FALSE(is_session_root(usual + "0"));
}

}  // namespace
}  // namespace muster::agent::session_dir_test
