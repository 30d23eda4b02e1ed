#include "job_templates/parameters.h"

#include <gmock/gmock.h>

#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::parameters_test {
namespace {

using ::testing::HasSubstr;

const std::string kAll =
    "parameters:\n"
    "  nodes: {type: int, min: 1, max: 8, default: 2}\n"
    "  time: {type: time}\n"
    "  queue: {type: choice, choices: [debug, prod]}\n"
    "  fast: {type: bool, default: no}\n"
    "  project: {type: string, required: true, help: Who pays.}\n";

std::string refused(const std::string& name, const std::string& value) {
  const Template job_template = parsed(kAll);
  Values values(job_template);
  return values.set(name, value, "--" + name).message();
}

TEST(TemplateValues, AreCheckedByTypeAndRange) {
  EXPECT_EQ(refused("nodes", "9"), "--nodes must be a whole number from 1 to 8, not '9'");
  EXPECT_EQ(refused("nodes", "0"), "--nodes must be a whole number from 1 to 8, not '0'");
  EXPECT_EQ(refused("nodes", "2; rm -rf /"), "--nodes must be a whole number from 1 to 8, not '2; rm -rf /'");
  EXPECT_EQ(refused("time", "30"),
            "--time: '30' is not a time: write it with a unit, as 30m, 1h30m or 7d, or as 0:30:00");
  EXPECT_EQ(refused("queue", "dbug"), "--queue must be one of debug, prod, not 'dbug'");
  EXPECT_EQ(refused("fast", "2"), "--fast must be true or false, not '2'");
  EXPECT_THAT(refused("project", "a\nb"), HasSubstr("without line breaks and control characters, not 'a\\x0ab'"));
  EXPECT_EQ(refused("project", ""), "--project must be some text, not ''");
  EXPECT_EQ(refused("project", "$(x) `y` ; z"), "");  // quoted or refused where it is used
  EXPECT_THAT(refused("node", "1"), HasSubstr("has no parameter 'node', did you mean nodes?"));
}

TEST(TemplateValues, WhatIsRequiredIsNamed) {
  const Template job_template = parsed(kAll);
  EXPECT_EQ(Values(job_template).check_complete().message(), "the template t needs --project (Who pays.)");
  EXPECT_TRUE(with(job_template, {{"project", "p"}}).check_complete().ok());
}

TEST(TemplateValues, Times) {
  const auto seconds = [](std::string_view text) {
    const auto time = parse_walltime(text);
    return time.ok() ? time->count() : -1;
  };
  EXPECT_EQ(seconds("90s"), 90);
  EXPECT_EQ(seconds("30m"), 1800);
  EXPECT_EQ(seconds("1h30m"), 5400);
  EXPECT_EQ(seconds("7d"), 604800);
  EXPECT_EQ(seconds("0:30:00"), 1800);
  EXPECT_EQ(seconds("12:00:05"), 43205);
  for (const char* text : {"", "30", "m", "30m1h", "1m1m", "0s", "1:2:3", "-1h", "1.5h", "99999d", "0:60:00"}) {
    EXPECT_EQ(seconds(text), -1) << text;
  }
}

TEST(TemplateTexts, TakeValuesInTheFormatAskedFor) {
  const Template job_template = parsed(kAll);
  const Values values = with(job_template, {{"time", "89s"}, {"nodes", "3"}});
  const auto filled = [&](const std::string& text) {
    const auto result = fill({text, {}}, values);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->value_or("(left out)") : "";
  };
  EXPECT_EQ(filled("-t {time:minutes} {time} {time:seconds} {time:hm}"), "-t 2 0:01:29 89 0:02");
  EXPECT_EQ(filled("{nodes}x{nodes}"), "3x3");
  EXPECT_EQ(filled("{fast}"), "false");
  EXPECT_EQ(filled("{{nodes}} }}{{"), "{nodes} }{");
  EXPECT_EQ(filled("-q {queue} {nodes}"), "(left out)");
}

TEST(TemplateTexts, FormatsAreThoseOfTheType) {
  EXPECT_THAT(mistake("parameters: {n: {type: int}}\nlaunch: {depth: \"{n:hm}\"}\n"),
              HasSubstr("{n:hm}: unknown format"));
  EXPECT_THAT(mistake("parameters: {n: {type: time}}\nlaunch: {timeout: \"{n:days}\"}\n"),
              HasSubstr("{n:days}: unknown format"));
}

}  // namespace
}  // namespace muster::job_templates::parameters_test
