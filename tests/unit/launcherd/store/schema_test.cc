#include "launcherd/store/schema.h"

#include <sys/stat.h>

#include <array>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::schema_test {
namespace {

using launcherd::open_store;
using launcherd::store_migrations;
using launcherd::StoreReader;
using ::testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  ::chmod(path.c_str(), 0600);
}

// Makes a store of an older version, with one waiting job.
void make_old_store(const std::string& path, std::size_t version) {
  auto database = open_store(path, store_migrations().first(version));
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE(database
                  ->run("INSERT INTO jobs (id, name, priority, state, reason, submitted_us) "
                        "VALUES ('abcdefgh', 'old', 4, 1, 'waits', 7)")
                  .ok());
}

std::vector<std::string_view> with(std::string_view later) {
  std::vector<std::string_view> all(store_migrations().begin(), store_migrations().end());
  all.push_back(later);
  return all;
}

class StoreSchema : public ::testing::Test {
 protected:
  std::string path() const { return temp_ / "jobs.sqlite"; }
  base::Status status_of(std::span<const std::string_view> migrations) {
    return open_store(path(), migrations).status();
  }

  TempDir temp_;
};

// SQLite gives the log and its index the mode of the file, whatever the umask is.
TEST_F(StoreSchema, AllFilesAreTheirOwnersAlone) {
  const mode_t before = ::umask(0);
  launcherd::BatchWriter writer = open_writer(path());
  EXPECT_TRUE(commit(writer, {new_job("abcdefgh")}).ok());
  ::umask(before);
  for (const char* const suffix : {"", "-wal", "-shm"}) EXPECT_EQ(mode_of(path() + suffix), 0600u) << suffix;
}

TEST_F(StoreSchema, AFileOpensWithALaterSchema) {
  {
    launcherd::BatchWriter writer = open_writer(path());
    ASSERT_TRUE(commit(writer, {new_job("abcdefgh"), plain_event("abcdefgh", "one")}).ok());
  }
  const auto later =
      with("ALTER TABLE jobs ADD COLUMN site TEXT NOT NULL DEFAULT 'here'; CREATE TABLE sites (name TEXT)");
  {
    auto database = open_store(path(), later);
    ASSERT_TRUE(database.ok()) << database.status();
    EXPECT_EQ(*database->value_of("PRAGMA user_version"), std::to_string(later.size()));
    EXPECT_EQ(*database->value_of("SELECT id || site FROM jobs"), "abcdefghhere");
    EXPECT_EQ(*database->value_of("SELECT message FROM events"), "one");
  }
  EXPECT_TRUE(status_of(later).ok());  // a second call finds nothing to migrate
  const base::Status older = status_of(store_migrations());
  EXPECT_EQ(older.code(), Code::kFailedPrecondition);
  EXPECT_THAT(older.message(), HasSubstr("newer launcherd"));
}

TEST_F(StoreSchema, JobsOfVersion1HaveNoUserAndAreNotHeld) {
  ASSERT_NO_FATAL_FAILURE(make_old_store(path(), 1));
  launcherd::BatchWriter writer = open_writer(path());
  auto reader = StoreReader::open(path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto job = reader->job(job_id("abcdefgh"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "old");
  EXPECT_EQ(job->user, "");
  EXPECT_FALSE(job->held_by.has_value());
  EXPECT_TRUE(commit(writer, {launcherd::NewHold{job_id("abcdefgh"), "ann"}}).ok());
  EXPECT_EQ(reader->job(job_id("abcdefgh"))->held_by, "ann");
}

TEST_F(StoreSchema, JobsOfVersion3WaitForNoneAndAreNoElements) {
  ASSERT_NO_FATAL_FAILURE(make_old_store(path(), 3));
  launcherd::BatchWriter writer = open_writer(path());
  auto reader = StoreReader::open(path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE(reader->job(job_id("abcdefgh"))->element);
  EXPECT_TRUE(reader->after(job_id("abcdefgh"))->empty());
  EXPECT_TRUE(reader->to_notify(0, 10)->empty());
  EXPECT_EQ(reader->jobs(StoreReader::Which::kAll, 10, "")->jobs.size(), 1u);
  const launcherd::NewAfter after{job_id("abcdefgh"), {{job_id("bbbbbbbb"), model::AfterEnd::kAny}}};
  EXPECT_TRUE(commit(writer, {after}).ok());
  EXPECT_EQ(reader->after(job_id("abcdefgh"))->size(), 1u);
}

TEST_F(StoreSchema, AMigrationThatFailsChangesNothing) {
  {
    launcherd::BatchWriter writer = open_writer(path());
    ASSERT_TRUE(commit(writer, {new_job("abcdefgh")}).ok());
  }
  const auto broken = with("DELETE FROM jobs; CREATE TABLE nothing; this is no SQL");
  const base::Status status = status_of(broken);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("from version 4 to 5"));
  auto database = open_store(path(), store_migrations());
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_EQ(*database->value_of("SELECT count(*) FROM jobs"), "1");
}

TEST_F(StoreSchema, WhatIsNoDatabaseIsLeftAsItIs) {
  for (const std::string& content : {std::string(5000, 'x'), std::string("short"), std::string(100, '\0') + "y"}) {
    write_file(path(), content);
    const base::Status status = status_of(store_migrations());
    ASSERT_FALSE(status.ok()) << content.size();
    EXPECT_EQ(status.code(), Code::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(path()));
    EXPECT_THAT(status.message(), HasSubstr("left as it is"));
    EXPECT_EQ(content_of(path()), content);
  }
}

TEST_F(StoreSchema, ADamagedDatabaseIsLeftAsItIs) {
  {
    launcherd::BatchWriter writer = open_writer(path());
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(commit(writer, {new_job(base::JobId::random().str())}).ok());
    }
  }
  std::string content = content_of(path());
  ASSERT_GT(content.size(), 40'000u);
  for (const bool is_cut : {false, true}) {
    std::string damaged = content;
    if (is_cut) {
      damaged.resize(20'000);
    } else {
      for (std::size_t i = 4096; i < damaged.size(); i += 7) damaged[i] = static_cast<char>(i);
    }
    write_file(path(), damaged);
    const base::Status status = status_of(store_migrations());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), Code::kDataLoss) << status;
    EXPECT_EQ(content_of(path()), damaged);
  }
}

// Otherwise a page of a list would sort all stored jobs.
TEST_F(StoreSchema, ListsOfJobsComeFromAnIndex) {
  auto database = open_store(path(), store_migrations());
  ASSERT_TRUE(database.ok()) << database.status();
  const auto plan_of = [&](const std::string& query) {
    const auto statement = database->prepare("EXPLAIN QUERY PLAN SELECT id FROM jobs WHERE " + query);
    EXPECT_TRUE(statement.ok()) << statement.status();
    std::string plan;
    launcherd::Execution row = statement->start();
    while (*row.next()) plan += row.bytes(3) + "; ";
    return plan;
  };
  const std::string order = " AND number < 9 ORDER BY number DESC LIMIT 5";
  EXPECT_EQ(plan_of("array IS NULL" + order), "SEARCH jobs USING INDEX listed_jobs (number<?); ");
  EXPECT_EQ(plan_of("ended_us IS NULL AND array IS NULL" + order),
            "SEARCH jobs USING INDEX listed_open_jobs (number<?); ");
  EXPECT_EQ(plan_of("ended_us IS NULL AND number > 9 ORDER BY number LIMIT 5"),
            "SEARCH jobs USING INDEX open_jobs (number>?); ");
  EXPECT_EQ(plan_of("array = 3 AND array_index >= 4 ORDER BY array_index LIMIT 5"),
            "SEARCH jobs USING INDEX elements (array=? AND array_index>?); ");
  EXPECT_EQ(plan_of("id >= 'a' AND id < 'b' AND array IS NULL ORDER BY id LIMIT 3").find("TEMP"), std::string::npos);
}

TEST_F(StoreSchema, ADatabaseOfAnotherProgramIsRefused) {
  write_file(path(), "");
  {
    auto other = launcherd::Database::open(path(), launcherd::Database::Access::kWrite);
    ASSERT_TRUE(other.ok());
    ASSERT_TRUE(other->run("CREATE TABLE recipes (name TEXT)").ok());
  }
  const base::Status status = status_of(store_migrations());
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another program"));
}

TEST_F(StoreSchema, AFileThatOthersMayReadIsRefused) {
  write_file(path(), "");
  ::chmod(path().c_str(), 0644);
  EXPECT_EQ(status_of(store_migrations()).code(), Code::kPermissionDenied);
}

TEST_F(StoreSchema, AReaderNeedsAFile) {
  EXPECT_FALSE(StoreReader::open(path()).ok());
}

}  // namespace
}  // namespace muster::testing_store::schema_test
