#include "launcherd/output/filter_sink.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "launcherd/output/rank_folder.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::filter_sink_test {
namespace {

using proto::OutputStream;
using testing_support::read_text;

class FilterSinkTest : public ::testing::Test {
 protected:
  std::unique_ptr<FilterSink> open(FilterSink::Words words) {
    auto sink = FilterSink::create(logs_, std::move(words), &clock_, {});
    EXPECT_TRUE(sink.ok()) << sink.status();
    return std::move(sink).value();
  }

  const base::SystemClock clock_{};
  testing_support::TempDir dir_;
  const std::string logs_ = dir_.path() + "/a/logs";
};

TEST_F(FilterSinkTest, WritesLabelledLinesThatHaveAWord) {
  const auto sink = open({{{"apple", "pear"}, {"fig"}}});
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "an apple\nnothing\na fig\n", 0).ok());
  EXPECT_TRUE(sink->write(1, OutputStream::kStdout, "two pears\n", 0).ok());
  EXPECT_TRUE(sink->write(1, OutputStream::kStderr, "an apple\na fig\n", 0).ok());
  EXPECT_EQ(read_text(logs_ + "/filtered_stdout.log"), "[0]<stdout>:an apple\n[1]<stdout>:two pears\n");
  EXPECT_EQ(read_text(logs_ + "/filtered_stderr.log"), "[1]<stderr>:a fig\n");
}

TEST_F(FilterSinkTest, FindsAWordInALineThatComesInPieces) {
  const auto sink = open({{{"apple"}, {}}});
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "an ap", proto::kPartial).ok());
  EXPECT_TRUE(sink->write(1, OutputStream::kStdout, "apple of 1", proto::kPartial).ok());
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "ple of 0\n", 0).ok());
  EXPECT_TRUE(sink->write(0, OutputStream::kStderr, "apple\n", 0).ok());
  EXPECT_TRUE(sink->end_rank(1).ok());
  EXPECT_EQ(read_text(logs_ + "/filtered_stdout.log"), "[0]<stdout>:an apple of 0\n[1]<stdout>:apple of 1\n");
  EXPECT_NE(access((logs_ + "/filtered_stderr.log").c_str(), F_OK), 0);  // stderr has no words
}

TEST_F(FilterSinkTest, CutsALineThatIsTooLong) {
  const auto sink = open({{{"apple"}, {}}});
  const std::string filler(64 * 1024, 'x');
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, filler + "apple\n", 0).ok());
  EXPECT_EQ(read_text(logs_ + "/filtered_stdout.log"), "[0]<stdout>:apple\n");
}

TEST_F(FilterSinkTest, ReportsAFullDiskOnce) {
  ASSERT_TRUE(make_directories(logs_).ok());
  ASSERT_EQ(symlink("/dev/full", (logs_ + "/filtered_stdout.log").c_str()), 0);
  const auto sink = open({{{"apple"}, {}}});
  const base::Status full = sink->write(0, OutputStream::kStdout, "apple\n", 0);
  EXPECT_EQ(full.code(), base::Code::kResourceExhausted) << full;
  EXPECT_TRUE(sink->write(0, OutputStream::kStdout, "apple\n", 0).ok());
}

TEST(ErrorFiles, AreWrittenIntoTheRanksFolderAndRemoved) {
  const testing_support::TempDir dir;
  const std::string logs = dir.path() + "/logs";
  EXPECT_TRUE(remove_error_files(logs, 11).ok());  // no such files exist
  ASSERT_TRUE(write_error_file(logs, 3, 11, "{}").ok());
  ASSERT_TRUE(write_error_file(logs, 3, 11, "{\"message\": 1}").ok());
  EXPECT_EQ(read_text(logs + "/rank.03/error.json"), "{\"message\": 1}");
  EXPECT_TRUE(remove_error_files(logs, 11).ok());
  EXPECT_NE(access((logs + "/rank.03/error.json").c_str(), F_OK), 0);
  const base::Status under_file = write_error_file("/dev/null", 0, 1, "{}");
  EXPECT_FALSE(under_file.ok());
  EXPECT_NE(under_file.message().find("/dev/null"), std::string::npos) << under_file;
}

}  // namespace
}  // namespace muster::launcherd::filter_sink_test
