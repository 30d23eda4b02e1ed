#include "launcherd/output/torch_log_sinks.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::torch_log_sinks_test {
namespace {

using proto::OutputStream;
using testing_support::read_text;

class TorchLogSinksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model::PlacementRequest request{.ranks_per_node = 2};
    for (const char* name : {"n1", "n2"}) request.hosts.emplace_back().name = name;
    auto placement = model::place(request);
    ASSERT_TRUE(placement.ok());
    auto logs = TorchLogs::create(dir_.path(), "run", *placement);
    ASSERT_TRUE(logs.ok()) << logs.status();
    logs_ = std::move(logs).value();
  }

  const base::SystemClock clock_{};
  testing_support::TempDir dir_;
  std::unique_ptr<TorchLogs> logs_;
};

TEST_F(TorchLogSinksTest, WritesOnlySelectedStreamsToFiles) {
  const auto selects = [](int local_rank, OutputStream stream) {
    return local_rank == 0 || stream == OutputStream::kStderr;
  };
  const auto sink = TorchLogSink::create(logs_.get(), selects);
  ASSERT_TRUE(sink.ok()) << sink.status();
  for (const int rank : {0, 1, 2, 3, 7}) {
    for (const OutputStream stream : {OutputStream::kStdout, OutputStream::kStderr}) {
      EXPECT_TRUE((*sink)->write(rank, stream, std::string("a\0b", 3) + std::to_string(rank), 0).ok());
    }
  }
  for (const int rank : {0, 1, 2, 3}) {
    const std::string folder = logs_->rank_folder(rank);
    const std::string bytes = std::string("a\0b", 3) + std::to_string(rank);
    EXPECT_EQ(read_text(folder + "/stderr.log"), bytes);
    EXPECT_EQ(std::filesystem::exists(folder + "/stdout.log"), rank % 2 == 0);
    if (rank % 2 == 0) {
      EXPECT_EQ(read_text(folder + "/stdout.log"), bytes);
    }
  }
}

TEST_F(TorchLogSinksTest, BeginsNewFilesInEachGeneration) {
  const auto sink = TorchLogSink::create(logs_.get(), [](int, OutputStream) { return true; });
  ASSERT_TRUE(sink.ok()) << sink.status();
  (*sink)->begin_attempt(0);
  EXPECT_TRUE((*sink)->write(3, OutputStream::kStdout, "first", 0).ok());
  const std::string before = logs_->rank_folder(3);
  (*sink)->begin_attempt(1);
  EXPECT_TRUE((*sink)->write(3, OutputStream::kStdout, "second", 0).ok());
  EXPECT_EQ(read_text(before + "/stdout.log"), "first");
  EXPECT_EQ(read_text(logs_->rank_folder(3) + "/stdout.log"), "second");
  EXPECT_EQ(logs_->rank_folder(3), logs_->hosts()[1].second + "/attempt_1/1");
}

TEST_F(TorchLogSinksTest, ReportsAGenerationWithoutFilesOnce) {
  const auto sink = TorchLogSink::create(logs_.get(), [](int, OutputStream) { return true; });
  ASSERT_TRUE(sink.ok()) << sink.status();
  std::ofstream(logs_->hosts()[0].second + "/attempt_1").put('x');  // a file where the folder must be
  (*sink)->begin_attempt(1);
  const base::Status written = (*sink)->write(0, OutputStream::kStdout, "x", 0);
  EXPECT_NE(written.message().find("/attempt_1/0"), std::string::npos) << written;
  EXPECT_TRUE((*sink)->write(0, OutputStream::kStdout, "x", 0).ok());
}

TEST_F(TorchLogSinksTest, FiltersTheLinesOfEachHost) {
  const auto sink = TorchFilterSink::create(logs_.get(), {{{"loss"}, {}}}, &clock_, {});
  ASSERT_TRUE(sink.ok()) << sink.status();
  for (const int rank : {0, 1, 2}) {
    EXPECT_TRUE((*sink)->write(rank, OutputStream::kStdout, "loss 1\nstep 2\nloss", 0).ok());
    EXPECT_TRUE((*sink)->end_rank(rank).ok());
  }
  EXPECT_TRUE((*sink)->write(9, OutputStream::kStdout, "loss\n", 0).ok());
  EXPECT_EQ(read_text(logs_->generation_folder(0) + "/filtered_stdout.log"),
            "[0]<stdout>:loss 1\n[0]<stdout>:loss\n[1]<stdout>:loss 1\n[1]<stdout>:loss\n");
  EXPECT_EQ(read_text(logs_->generation_folder(2) + "/filtered_stdout.log"), "[2]<stdout>:loss 1\n[2]<stdout>:loss\n");
  EXPECT_FALSE(std::filesystem::exists(logs_->generation_folder(0) + "/filtered_stderr.log"));
  (*sink)->begin_attempt(1);
  EXPECT_TRUE((*sink)->write(0, OutputStream::kStdout, "loss 3\n", 0).ok());
  EXPECT_EQ(read_text(logs_->generation_folder(0) + "/filtered_stdout.log"), "[0]<stdout>:loss 3\n");
}

}  // namespace
}  // namespace muster::launcherd::torch_log_sinks_test
