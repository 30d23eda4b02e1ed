#include "launcherd/run/exec_request.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "proto/input_window.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::exec_request_test {
namespace {

using Adjust = std::function<void(v1::ExecRequest&)>;

v1::ExecRequest command() {
  v1::ExecRequest request;
  request.set_job("k7");
  request.add_command("ps");
  return request;
}

// The field that the message of the refusal names. Empty if the request is accepted.
std::string refused_field(base::Status (*check)(const v1::ExecRequest&), v1::ExecRequest request,
                          const Adjust& adjust) {
  adjust(request);
  const base::Status status = check(request);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), base::Code::kInvalidArgument);
  return status.message().substr(0, status.message().find(':'));
}
std::string first(const Adjust& adjust) {
  return refused_field(check_first_request, command(), adjust);
}
std::string next(const Adjust& adjust) {
  return refused_field(check_next_request, {}, adjust);
}

TEST(ExecRequest, AcceptsCommandsAndShells) {
  EXPECT_EQ(first([](v1::ExecRequest&) {}), "");
  EXPECT_EQ(first([](v1::ExecRequest& request) {
              request.clear_command();
              request.set_shell(true);
              request.set_terminal(true);
              request.set_term("xterm-256color");
              request.mutable_window_size()->set_rows(1);
              request.mutable_window_size()->set_columns(65535);
            }),
            "");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_input(std::string(proto::kInputWindow, 'x')); }), "");
}

TEST(ExecRequest, NamesTheWrongFieldOfTheFirstRequest) {
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.clear_command(); }), "command");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_command(0, ""); }), "command");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_shell(true); }), "command");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.add_command(std::string("a\0b", 3)); }), "command");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.add_command(std::string(200'000, 'x')); }), "command");
  EXPECT_EQ(first([](v1::ExecRequest& request) {
              for (int i = 0; i < 5000; ++i) request.add_command("x");
            }),
            "command");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_rank(-1); }), "rank");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_term("xterm"); }), "term") << "without a terminal";
  for (const std::string& term : std::vector<std::string>{"a b", "../x", "x\n", "\xff", std::string(65, 'x')}) {
    EXPECT_EQ(first([&term](v1::ExecRequest& request) {
                request.set_terminal(true);
                request.set_term(term);
              }),
              "term")
        << term;
  }
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.mutable_window_size()->set_rows(1); }), "window_size");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_signal(65); }), "signal");
  EXPECT_EQ(first([](v1::ExecRequest& request) { request.set_input(std::string(proto::kInputWindow + 1, 'x')); }),
            "input");
}

TEST(ExecRequest, NamesTheWrongFieldOfALaterRequest) {
  EXPECT_EQ(next([](v1::ExecRequest&) {}), "");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_input("x"); }), "");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_job("k7"); }), "job");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_rank(0); }), "rank");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.add_command("ps"); }), "command");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_shell(true); }), "shell");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_terminal(true); }), "terminal");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_term("xterm"); }), "term");
  EXPECT_EQ(next([](v1::ExecRequest& request) { request.set_signal(-1); }), "signal");
  EXPECT_EQ(next([](v1::ExecRequest& request) {
              request.mutable_window_size()->set_rows(0);
              request.mutable_window_size()->set_columns(80);
            }),
            "window_size");
}

TEST(ExecRequest, MeansTheOnlyRankIfItNamesNone) {
  EXPECT_EQ(rank_of_request(command(), 1).value(), 0);
  EXPECT_EQ(rank_of_request(command(), 2).status().message(), "rank: the job has 2 ranks; name one of them");
}

TEST(ExecRequest, RefusesUnknownRanks) {
  v1::ExecRequest request = command();
  request.set_rank(1);
  EXPECT_EQ(rank_of_request(request, 2).value(), 1);
  request.set_rank(2);
  EXPECT_EQ(rank_of_request(request, 2).status().message(), "rank: unknown rank 2: the job has ranks 0 to 1");
}

}  // namespace
}  // namespace muster::launcherd::exec_request_test
