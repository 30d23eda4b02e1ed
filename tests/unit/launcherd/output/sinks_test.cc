#include "launcherd/output/sinks.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::sinks_test {
namespace {

using proto::OutputStream;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class FileSinkTest : public ::testing::Test {
 protected:
  testing_support::TempDir dir_;
  const std::string& folder_ = dir_.path();
};

TEST_F(FileSinkTest, WritesExactBytesPerRankAndStream) {
  auto sink = FileSink::create(folder_ + "/a/b", 2);
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_TRUE((*sink)->write(0, OutputStream::kStdout, "one\r", 0).ok());
  EXPECT_TRUE((*sink)->write(0, OutputStream::kStdout, "two", proto::kPartial).ok());
  EXPECT_TRUE((*sink)->write(1, OutputStream::kStderr, std::string_view("\0\xff", 2), proto::kPartial).ok());
  EXPECT_TRUE((*sink)->end_rank(0).ok());
  EXPECT_TRUE((*sink)->flush().ok());
  EXPECT_EQ(content(folder_ + "/a/b/rank.0/stdout"), "one\rtwo");
  EXPECT_EQ(content(folder_ + "/a/b/rank.0/stderr"), "");
  EXPECT_EQ(content(folder_ + "/a/b/rank.1/stderr"), std::string("\0\xff", 2));
}

TEST_F(FileSinkTest, MakesFilesOfASpawnedRankWhenItWrites) {
  auto sink = FileSink::create(folder_, 2);
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/rank.2"));
  EXPECT_TRUE((*sink)->write(2, OutputStream::kStdout, "x", 0).ok());
  EXPECT_EQ(content(folder_ + "/rank.2/stdout"), "x");
  EXPECT_EQ(content(folder_ + "/rank.2/stderr"), "");
}

TEST_F(FileSinkTest, PadsAsHorovodrunDoes) {
  const struct {
    int size;
    const char* first;
    const char* last;
  } cases[] = {{1, "rank.0", "rank.0"},
               {2, "rank.0", "rank.1"},
               {10, "rank.0", "rank.9"},
               {11, "rank.00", "rank.10"},
               {101, "rank.000", "rank.100"}};
  for (const auto& [size, first, last] : cases) {
    const std::string folder = folder_ + "/" + std::to_string(size);
    ASSERT_TRUE(FileSink::create(folder, size).ok());
    EXPECT_EQ(access((folder + "/" + first + "/stdout").c_str(), F_OK), 0) << size;
    EXPECT_EQ(access((folder + "/" + last + "/stderr").c_str(), F_OK), 0) << size;
  }
}

TEST_F(FileSinkTest, TruncatesWhatAnEarlierJobLeft) {
  {
    auto sink = FileSink::create(folder_, 1);
    ASSERT_TRUE(sink.ok());
    EXPECT_TRUE((*sink)->write(0, OutputStream::kStdout, "old", 0).ok());
  }
  ASSERT_TRUE(FileSink::create(folder_, 1).ok());
  EXPECT_EQ(content(folder_ + "/rank.0/stdout"), "");
}

TEST_F(FileSinkTest, ErrorsNameThePath) {
  std::ofstream(folder_ + "/file") << "no folder";
  const auto under_file = FileSink::create(folder_ + "/file/logs", 1);
  ASSERT_FALSE(under_file.ok());
  EXPECT_NE(under_file.status().message().find(folder_ + "/file"), std::string::npos) << under_file.status();
  ASSERT_EQ(mkdir((folder_ + "/rank.0").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder_ + "/rank.0/stdout").c_str(), 0700), 0);
  const auto is_folder = FileSink::create(folder_, 1);
  ASSERT_FALSE(is_folder.ok());
  EXPECT_NE(is_folder.status().message().find("rank.0/stdout"), std::string::npos) << is_folder.status();
}

TEST_F(FileSinkTest, TeeGivesBothEverythingAlthoughOneFails) {
  ASSERT_EQ(mkdir((folder_ + "/bad").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder_ + "/bad/rank.0").c_str(), 0700), 0);
  ASSERT_EQ(symlink("/dev/full", (folder_ + "/bad/rank.0/stdout").c_str()), 0);
  auto bad = FileSink::create(folder_ + "/bad", 1);
  auto good = FileSink::create(folder_ + "/good", 1);
  ASSERT_TRUE(bad.ok() && good.ok());
  for (const bool is_bad_first : {true, false}) {
    TeeSink tee(is_bad_first ? bad->get() : good->get(), is_bad_first ? good->get() : bad->get());
    const base::Status status = tee.write(0, OutputStream::kStdout, "x\n", 0);
    EXPECT_EQ(status.code(), is_bad_first ? base::Code::kResourceExhausted : base::Code::kOk);  // reported once
    EXPECT_TRUE(tee.end_rank(0).ok());
    EXPECT_TRUE(tee.flush().ok());
  }
  EXPECT_EQ(content(folder_ + "/good/rank.0/stdout"), "x\nx\n");
}

class ConsoleSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    out_ = base::make_pipe().value();
    err_ = base::make_pipe().value();
  }
  static std::string text(const base::FdPair& pipe) {
    std::string found(1 << 16, '\0');
    EXPECT_TRUE(base::set_nonblocking(pipe.first.get(), true).ok());
    const ssize_t got = read(pipe.first.get(), found.data(), found.size());
    found.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return found;
  }
  base::FdPair out_;
  base::FdPair err_;
  base::FakeClock clock_;
};

TEST_F(ConsoleSinkTest, StdoutAndStderrGoTheirWays) {
  Terminals terminals(out_.second.get(), err_.second.get());
  ConsoleSink sink(terminals.out(), terminals.err(), &clock_, {.size = 2});
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "out\n", 0).ok());
  EXPECT_TRUE(sink.write(1, OutputStream::kStderr, "err", proto::kPartial).ok());
  EXPECT_EQ(text(out_), "");  // nothing before flush()
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(text(out_), "[0]<stdout>:out\n");
  EXPECT_EQ(text(err_), "[1]<stderr>:err");
  EXPECT_TRUE(sink.end_rank(1).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(text(err_), "\n");
  EXPECT_EQ(text(out_), "");
}

TEST_F(ConsoleSinkTest, OnOneTerminalOrderIsKept) {
  Terminals terminals(out_.second.get(), out_.second.get());
  ConsoleSink sink(terminals.out(), terminals.err(), &clock_, {.size = 1});
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "half", proto::kPartial).ok());
  EXPECT_TRUE(sink.write(0, OutputStream::kStderr, "err\n", 0).ok());
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, " done\n", proto::kContinuation).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(text(out_), "[0]<stdout>:half\n[0]<stderr>:err\n[0]<stdout>: done\n");
}

TEST_F(ConsoleSinkTest, ANoticeBetweenTwoFlushesClosesTheOpenLine) {
  Terminals terminals(out_.second.get(), out_.second.get());
  ConsoleSink sink(terminals.out(), terminals.err(), &clock_, {.size = 1});
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "name: ", proto::kPartial).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_TRUE(terminals.err()->write_notice("hvdrun: note\n").ok());
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "bob\n", proto::kContinuation).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(text(out_), "[0]<stdout>:name: \nhvdrun: note\n[0]<stdout>:bob\n");
}

TEST_F(ConsoleSinkTest, TheRankWithATerminalIsShownAsItIs) {
  Terminals terminals(out_.second.get(), err_.second.get());
  ConsoleSink sink(terminals.out(), terminals.err(), &clock_, {.size = 2, .raw_rank = 0});
  EXPECT_TRUE(sink.write(1, OutputStream::kStdout, "before\n", 0).ok());
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "\x1b[1m>>> ", proto::kPartial).ok());
  EXPECT_EQ(text(out_), "[1]<stdout>:before\n\x1b[1m>>> ");  // written at once
  EXPECT_TRUE(sink.end_rank(0).ok());
  EXPECT_TRUE(sink.write(1, OutputStream::kStdout, "after\n", 0).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(text(out_), "\n[1]<stdout>:after\n");
}

TEST_F(ConsoleSinkTest, AReaderThatWentAwayIsReportedOnce) {
  Terminals terminals(out_.second.get(), err_.second.get());
  ConsoleSink sink(terminals.out(), terminals.err(), &clock_, {.size = 1});
  out_.first.reset();
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, "x\n", 0).ok());
  EXPECT_EQ(sink.flush().code(), base::Code::kCancelled);
  EXPECT_TRUE(sink.write(0, OutputStream::kStdout, std::string(1 << 20, '\n'), 0).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_TRUE(sink.write(0, OutputStream::kStderr, "still heard\n", 0).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(text(err_), "[0]<stderr>:still heard\n");
}

TEST_F(FileSinkTest, OnlyWhatIsChosenIsPassedOn) {
  auto files = FileSink::create(folder_, 2);
  ASSERT_TRUE(files.ok()) << files.status();
  SelectSink sink(files->get(), {{.out = true, .err = false}, {.out = false, .err = true}});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(sink.write(rank, OutputStream::kStdout, "out\n", 0).ok());
    EXPECT_TRUE(sink.write(rank, OutputStream::kStderr, "err\n", 0).ok());
    EXPECT_TRUE(sink.end_rank(rank).ok());
  }
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(content(folder_ + "/rank.0/stdout"), "out\n");
  EXPECT_EQ(content(folder_ + "/rank.0/stderr"), "");
  EXPECT_EQ(content(folder_ + "/rank.1/stdout"), "");
  EXPECT_EQ(content(folder_ + "/rank.1/stderr"), "err\n");
}

TEST_F(FileSinkTest, ANewGenerationMayChooseOtherStreams) {
  auto files = FileSink::create(folder_, 2);
  ASSERT_TRUE(files.ok()) << files.status();
  SelectSink sink(files->get(), {{.out = true, .err = true}, {.out = false, .err = false}});
  EXPECT_TRUE(sink.write(1, OutputStream::kStdout, "hidden\n", 0).ok());
  sink.set_streams({{.out = true, .err = true}, {.out = true, .err = true}});
  EXPECT_TRUE(sink.write(1, OutputStream::kStdout, "shown\n", 0).ok());
  EXPECT_TRUE(sink.flush().ok());
  EXPECT_EQ(content(folder_ + "/rank.1/stdout"), "shown\n");
}

}  // namespace
}  // namespace muster::launcherd::sinks_test
