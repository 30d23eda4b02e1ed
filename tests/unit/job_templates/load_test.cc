#include "job_templates/load.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::load_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

// A folder for the user's own templates and one for the job.
class OwnTemplates : public ::testing::Test {
 protected:
  OwnTemplates() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = ::testing::TempDir() + "muster_templates_" + info->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ + "/user");
    std::filesystem::create_directories(root_ + "/job");
    sources_ = {.directory = root_ + "/job", .user_folder = root_ + "/user"};
  }
  ~OwnTemplates() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) const {
    std::ofstream(root_ + "/" + path) << content;
  }

  std::string root_;
  Sources sources_;
};

TEST(BuiltInTemplates, AllLoad) {
  const auto names = template_names({});
  EXPECT_THAT(names, IsSupersetOf({"aurora", "flux-gpu", "lsf-gpu", "mxnet-ps", "pbs-cpu", "polaris", "slurm-cpu",
                                   "slurm-gpu", "ssh-lab", "theta", "thetagpu", "torch-ddp"}));
  for (const std::string& name : names) {
    const Template job_template = built_in(name);
    EXPECT_FALSE(job_template.help.empty()) << name;
    EXPECT_EQ(job_template.origin, "built in");
    EXPECT_THAT(job_template.notes, IsEmpty());
    for (const Parameter& parameter : job_template.parameters) {
      EXPECT_FALSE(parameter.help.empty()) << name << " " << parameter.name;
    }
  }
}

TEST(BuiltInTemplates, AsMergedTheyReadAsThemselves) {
  for (const std::string& name : template_names({})) {
    const Template job_template = built_in(name);
    const std::string text = format_document(job_template.merged);
    const auto again = parse_template(text, "again.yaml", {});
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(format_document(again->merged), text);
    EXPECT_EQ(again->parameters.size(), job_template.parameters.size());
    EXPECT_EQ(again->launch.size(), job_template.launch.size());
  }
}

TEST(LoadTemplate, UnknownNamesGetTheNearest) {
  const auto loaded = load_template("polari", {});
  EXPECT_EQ(loaded.status().code(), base::Code::kNotFound);
  EXPECT_EQ(loaded.status().message(),
            "unknown template 'polari', did you mean polaris? (muster templates lists them)");
  EXPECT_THAT(load_template("./none.yaml", {.directory = "/tmp", .user_folder = ""}).status().message(),
              HasSubstr("the template /tmp/./none.yaml does not exist"));
}

TEST_F(OwnTemplates, HideBuiltInOnesAndMayExtendThem) {
  write("user/polaris.yaml", "extends: polaris\nparameters:\n  project: {default: mine}\n");
  const auto loaded = load_template("polaris", sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->parameter("project")->standard, "mine");
  EXPECT_EQ(loaded->node.gpus, 4);
  EXPECT_THAT(loaded->notes, ElementsAre(AllOf(HasSubstr("user/polaris.yaml"), HasSubstr("hides the one built in"))));
  write("job/polaris.yaml", "extends: polaris\nparameters:\n  queue: {default: prod}\n");
  const auto over_both = load_template("polaris", sources_);
  ASSERT_TRUE(over_both.ok()) << over_both.status();
  EXPECT_EQ(over_both->parameter("project")->standard, "mine");
  EXPECT_EQ(over_both->parameter("queue")->standard, "prod");
  EXPECT_THAT(over_both->notes, ElementsAre(HasSubstr("hides the one in ")));
}

TEST_F(OwnTemplates, AreNoParentsOfBuiltInOnes) {
  write("job/pbs-cpu.yaml", "pre: {job: [./theirs]}\nsubmit: ./theirs\n");
  const auto polaris = load_template("polaris", sources_);
  ASSERT_TRUE(polaris.ok()) << polaris.status();
  EXPECT_THAT(polaris->pre.job, IsEmpty());
  EXPECT_EQ(polaris->submit, "");
  EXPECT_THAT(polaris->notes, IsEmpty());
}

TEST_F(OwnTemplates, ThatHideAParentAreAnnounced) {
  write("job/pbs-cpu.yaml", "scheduler: pbs\nsubmit: ./mine\n");
  write("user/site.yaml", "extends: pbs-cpu\n");
  const auto site = load_template("site", sources_);
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_EQ(site->submit, "./mine");
  EXPECT_THAT(site->notes,
              ElementsAre(fmt::format("template pbs-cpu: {}/job/pbs-cpu.yaml hides the one built in", root_)));
}

TEST_F(OwnTemplates, OfAnotherUserInTheJobsFolderNeedTheirPath) {
  write("job/polaris.yaml", "extends: polaris\nsubmit: ./theirs\n");
  write("job/theirs.yaml", "help: x\n");
  sources_.owner = ::geteuid() + 1;  // someone else than the owner of the files that we have just written
  if (::geteuid() == 0) {
    for (const char* file : {"/job/polaris.yaml", "/job/theirs.yaml"}) {
      ASSERT_EQ(::chown((root_ + file).c_str(), 4242, 4242), 0);
    }
  }
  const auto named = load_template("polaris", sources_);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->origin, "built in");
  EXPECT_THAT(named->notes, ElementsAre(AllOf(HasSubstr("job/polaris.yaml is ignored because it belongs to another "),
                                              HasSubstr("use -t " + root_ + "/job/polaris.yaml to accept it"))));
  EXPECT_THAT(load_template("theirs", sources_).status().message(),
              AllOf(StartsWith("unknown template 'theirs'"), HasSubstr("job/theirs.yaml is ignored")));
  write("job/ours.yaml", "help: x\n");
  std::filesystem::create_symlink(root_ + "/job/ours.yaml", root_ + "/job/link.yaml");
  if (::geteuid() == 0) {
    ASSERT_EQ(::lchown((root_ + "/job/link.yaml").c_str(), 4242, 4242), 0);
  }
  EXPECT_THAT(load_template("link", sources_).status().message(), HasSubstr("job/link.yaml is ignored"));
  const auto by_path = load_template(root_ + "/job/polaris.yaml", sources_);
  ASSERT_TRUE(by_path.ok()) << by_path.status();
  EXPECT_EQ(by_path->submit, "./theirs");
}

TEST_F(OwnTemplates, AreListedAndFoundByPath) {
  write("user/mine.yaml", "help: Mine.\n");
  write("job/site.yaml", "extends: ./deeper/base.yaml\n");
  std::filesystem::create_directories(root_ + "/job/deeper");
  write("job/deeper/base.yaml", "extends: mine\nlaunch: {depth: 3}\n");
  EXPECT_THAT(template_names(sources_), IsSupersetOf({"mine", "polaris"}));
  const auto loaded = load_template("./site.yaml", sources_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->name, "site");
  EXPECT_EQ(loaded->help, "Mine.");
  EXPECT_EQ(loaded->launch[0].value.text, "3");
}

TEST_F(OwnTemplates, CyclesAreNamedAsTheyGo) {
  write("user/a.yaml", "extends: b\n");
  write("user/b.yaml", "help: x\nextends: [slurm-cpu, c]\n");
  write("user/c.yaml", "extends: a\n");
  const std::string user = root_ + "/user/";
  EXPECT_EQ(load_template("a", sources_).status().message(),
            fmt::format("extends forms a cycle: {0}a.yaml → {0}b.yaml → {0}c.yaml → {0}a.yaml", user));
  write("user/self.yaml", "extends: self\n");
  EXPECT_EQ(load_template("self", sources_).status().message(),
            user + "self.yaml:1:10: no other template 'self' (muster templates lists them)");
}

TEST(MergedTemplates, ListsMapsAndNull) {
  const Template job_template = parsed(
      "extends: slurm-cpu\n"
      "parameters: {qos: ~, queue: {default: gpu}}\n"
      "directives: [\"--nodes={nodes}\"]\n"
      "modules+: [a, b]\n"
      "launch: {bootstrap: ssh}\n");
  EXPECT_EQ(job_template.parameter("qos"), nullptr);
  EXPECT_EQ(job_template.parameter("queue")->standard, "gpu");
  EXPECT_EQ(job_template.directives.size(), 1U);
  EXPECT_THAT(job_template.modules, ElementsAre("a", "b"));
  const auto plan = plan_launch(Values(job_template));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->options[1].value, "ssh");
}

TEST(MergedTemplates, WhatOnlyTheWholeShows) {
  EXPECT_EQ(mistake("extends: slurm-cpu\nparameters: {qos: ~}\n"),
            "built-in template slurm-cpu:21:5: unknown parameter 'qos'");
  EXPECT_EQ(mistake("parameters: {n: {default: 3}}\n"),
            "t.yaml:1:14: parameters.n has no type: write string, int, time, choice or bool");
  EXPECT_EQ(mistake("launch: {depth: \"{deepth}\"}\nparameters: {depth: {type: int}}\n"),
            "t.yaml:1:17: unknown parameter 'deepth', did you mean depth?");
  EXPECT_THAT(mistake("launch: {depth: \"{x\"}\n"), HasSubstr("t.yaml:1:17: '{x' has a '{' that belongs to no"));
  EXPECT_THAT(mistake("parameters: {n: {type: int, default: x}}\n"),
              HasSubstr("t.yaml:1:38: its default must be a whole number from 0, not 'x'"));
  EXPECT_THAT(mistake("parameters: {n: {type: int, default: 9, max: 3}}\n"), HasSubstr("from 0 to 3, not '9'"));
  EXPECT_THAT(mistake("parameters: {n: {type: int, min: 9, max: 3}}\n"), HasSubstr("has a min above its max"));
  EXPECT_THAT(mistake("parameters: {n: {type: choice}}\n"), HasSubstr("needs choices"));
  EXPECT_THAT(mistake("parameters: {n: {type: string, min: 1}}\n"), HasSubstr("has bounds, but its type is not int"));
  EXPECT_THAT(mistake("directives: [\"-q x\"]\n"), HasSubstr("directives need a scheduler"));
  EXPECT_THAT(mistake("scheduler: pbs\ndirectives: [\"-q x\\nrm y\"]\n"),
              HasSubstr("a directive must be one line of text"));
  EXPECT_THAT(mistake("shell: /bin/zsh\n"), StartsWith("t.yaml:1:8: shell must be /bin/bash"));
  for (const char* shell : {"/usr/bin/env bash -l", "/bin/bashfoo", "/bin/bash -l -x", "/bin/bash script",
                            "/bin/bash -", "\"/bin/bash\\n-l\""}) {
    EXPECT_THAT(mistake(fmt::format("shell: {}\n", shell)), HasSubstr("at most one option")) << shell;
  }
  for (const char* shell : {"/bin/bash -l", "/usr/bin/bash --login", "/usr/bin/env bash"}) {
    EXPECT_EQ(parsed(fmt::format("shell: {}\n", shell)).shell, shell);
  }
  EXPECT_THAT(mistake("roles: {a: {ranks: 1}}\n"), HasSubstr("one role must get the rest"));
  EXPECT_THAT(mistake("roles: {a: {}, b: {}}\n"), HasSubstr("roles.b needs ranks"));
  EXPECT_THAT(mistake("node: {sockets: 2}\n"), HasSubstr("node needs both sockets and cores"));
  EXPECT_THAT(mistake("node: {sockets: 1, cores: 4, reserved_cores: [4]}\n"), HasSubstr("the host has no core 4"));
  EXPECT_THAT(mistake("node: {sockets: 1, cores: 4, gpus: 2, gpu_cpus: [\"0-3\"]}\n"),
              HasSubstr("1 entries for 2 GPUs"));
  EXPECT_THAT(mistake("node: {gpus: 1, gpu_cpus: [x]}\n"), HasSubstr("'x' is not a list of CPUs"));
}

}  // namespace
}  // namespace muster::job_templates::load_test
