#include "agent/job/rank_table.h"

#include <sys/resource.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::rank_table_test {
namespace {

void add(v1::RankTable& table, const std::string& name, const std::string& address, const std::vector<int>& ranks,
         const std::vector<int>& cpus = {}) {
  v1::RankTableHost& host = *table.add_hosts();
  host.set_name(name);
  host.set_address(address);
  host.mutable_ranks()->Add(ranks.begin(), ranks.end());
  host.mutable_cpus()->Add(cpus.begin(), cpus.end());
}

TEST(RankTable, HasALineForEachRankInTheirOrder) {
  v1::RankTable table;
  add(table, "n1", "10.0.0.1", {0, 2}, {8, 4});
  add(table, "n2", "fd00::2", {1, 3});
  EXPECT_EQ(rank_table_text(table),
            "rank\tlocal_rank\thost\taddress\tcpus\n"
            "0\t0\tn1\t10.0.0.1\t8\n"
            "1\t0\tn2\tfd00::2\t0\n"
            "2\t1\tn1\t10.0.0.1\t4\n"
            "3\t1\tn2\tfd00::2\t0\n");
}

TEST(RankTable, KeepsItsColumnsWhateverTheLauncherSends) {
  v1::RankTable table;
  add(table, "n\t1\n", "", {0}, {1, 2, 3});
  EXPECT_EQ(rank_table_text(table), "rank\tlocal_rank\thost\taddress\tcpus\n0\t0\tn 1 \t-\t0\n");
}

TEST(RankTable, IsNamedByAVariableOnceItIsWritten) {
  const testing_support::TempDir root;
  RankTable file;
  file.open(root.path());
  std::vector<SpawnRequest> requests(1);
  file.apply(requests);
  EXPECT_TRUE(requests[0].env.empty());
  EXPECT_TRUE(file.variable_names().empty());
  v1::RankTable table;
  add(table, "n1", "10.0.0.1", {0});
  ASSERT_TRUE(file.write(table).ok());
  file.apply(requests);
  EXPECT_EQ(requests[0].env, std::vector<std::string>{"MUSTER_RANK_TABLE=" + (root / "rank_table")});
  EXPECT_EQ(file.variable_names(), std::vector<std::string>{"MUSTER_RANK_TABLE"});
  EXPECT_EQ(base::read_file(root / "rank_table").value(), rank_table_text(table));
}

TEST(RankTable, SaysThatItCannotBeWritten) {
  RankTable file;
  file.open("/nothing/here");
  EXPECT_NE(file.write({}).message().find("table of ranks"), std::string::npos);
}

TEST(RankTable, RemovesTheFileOfAnEarlierGenerationIfItCannotBeReplaced) {
  const testing_support::TempDir root;
  RankTable file;
  file.open(root.path());
  ASSERT_TRUE(file.write({}).ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const base::Status written = file.write({});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(written.ok());
  EXPECT_FALSE(std::filesystem::exists(root / "rank_table"));
}

}  // namespace
}  // namespace muster::agent::rank_table_test
