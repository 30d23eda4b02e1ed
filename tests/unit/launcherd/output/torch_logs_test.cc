#include "launcherd/output/torch_logs.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::torch_logs_test {
namespace {

namespace fs = std::filesystem;

model::Placement place(const std::vector<std::string>& hosts, int ranks_per_host) {
  model::PlacementRequest request{.ranks_per_node = ranks_per_host};
  for (const std::string& name : hosts) {
    model::HostSpec& host = request.hosts.emplace_back();
    host.name = name;
  }
  auto placement = model::place(request);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return std::move(placement).value();
}

class TorchLogsTest : public ::testing::Test {
 protected:
  std::unique_ptr<TorchLogs> create(const std::vector<std::string>& hosts, const std::string& run_id = "run") {
    auto logs = TorchLogs::create(folder_, run_id, place(hosts, 2));
    EXPECT_TRUE(logs.ok()) << logs.status();
    return std::move(logs).value();
  }

  testing_support::TempDir dir_;
  const std::string folder_ = dir_.path() + "/a/logs";
};

TEST_F(TorchLogsTest, GivesEachHostAFolderThatIsNamedAsMkdtempDoes) {
  const auto logs = create({"n1", "n2"});
  ASSERT_EQ(logs->hosts().size(), 2u);
  for (const auto& [host, path] : logs->hosts()) {
    EXPECT_TRUE(std::regex_match(path, std::regex(folder_ + "/run_[a-z0-9_]{8}"))) << path;
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
  }
  EXPECT_NE(logs->hosts()[0].second, logs->hosts()[1].second);
  for (const int rank : {0, 1, 2, 3}) {
    const auto& [host, path] = logs->hosts()[static_cast<std::size_t>(rank / 2)];
    EXPECT_EQ(host, rank < 2 ? "n1" : "n2");
    EXPECT_EQ(logs->rank_folder(rank), path + "/attempt_0/" + std::to_string(rank % 2));
    EXPECT_EQ(logs->generation_folder(rank), path + "/attempt_0");
    EXPECT_EQ(logs->local_rank(rank), rank % 2);
    EXPECT_TRUE(fs::is_directory(logs->rank_folder(rank)));
  }
}

TEST_F(TorchLogsTest, KeepsTheFoldersOfHostsInLaterGenerations) {
  const auto logs = create({"n1", "n2"});
  const auto before = logs->hosts();
  logs->set_placement(place({"n2", "n3"}, 2));
  EXPECT_EQ(logs->rank_folder(0), before[0].second + "/attempt_0/0");  // not yet begun
  ASSERT_TRUE(logs->begin(1).ok());
  EXPECT_EQ(logs->rank_folder(0), before[1].second + "/attempt_1/0");
  ASSERT_EQ(logs->hosts().size(), 3u);
  EXPECT_EQ(logs->rank_folder(2), logs->hosts()[2].second + "/attempt_1/0");
  EXPECT_FALSE(fs::exists(before[0].second + "/attempt_1"));
}

TEST_F(TorchLogsTest, BeginsAGenerationOnce) {
  const auto logs = create({"n1"});
  logs->set_placement(place({"n2"}, 2));
  ASSERT_TRUE(logs->begin(0).ok());
  EXPECT_EQ(logs->hosts().size(), 1u);
  EXPECT_EQ(logs->ranks(), (std::vector<int>{0, 1}));
}

TEST_F(TorchLogsTest, HasNoFolderForUnknownRanks) {
  const auto logs = create({"n1"});
  EXPECT_EQ(logs->rank_folder(2), "");
  EXPECT_EQ(logs->generation_folder(-1), "");
  EXPECT_EQ(logs->local_rank(2), -1);
  EXPECT_FALSE(logs->write_error_file(2, "{}").ok());
}

TEST_F(TorchLogsTest, WritesTheErrorFileOfARank) {
  const auto logs = create({"n1"});
  ASSERT_TRUE(logs->write_error_file(1, R"({"message": "x"})").ok());
  std::ifstream file(logs->rank_folder(1) + "/error.json", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), R"({"message": "x"})");
}

TEST_F(TorchLogsTest, KeepsTheTreeWhenTheRunIdHasASlash) {
  const auto logs = create({"n1"}, "a/../b");
  EXPECT_TRUE(logs->hosts()[0].second.starts_with(folder_ + "/a-..-b_")) << logs->hosts()[0].second;
}

TEST_F(TorchLogsTest, NamesAFolderThatCannotBeMade) {
  std::ofstream(dir_.path() + "/file").put('x');
  const auto logs = TorchLogs::create(dir_.path() + "/file/logs", "run", place({"n1"}, 1));
  ASSERT_FALSE(logs.ok());
  EXPECT_NE(logs.status().message().find(dir_.path() + "/file"), std::string::npos) << logs.status();
}

}  // namespace
}  // namespace muster::launcherd::torch_logs_test
