#include "job_templates/script.h"

#include <cstdlib>
#include <map>

#include <gmock/gmock.h>

#include "base/env.h"
#include "base/file.h"
#include "base/strings.h"
#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::script_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Options = std::map<std::string, std::string>;

// "-n 2 -t 30", "--attrs mcdram=cache:numa=quad", "-l walltime=0:30:00" and "--nodes=2" by option; PBS's resources by
// theirs. Times in seconds, since "30" of Cobalt and "0:30:00" of PBS say the same.
Options options_of(std::string_view script, std::string_view prefix) {
  Options options;
  for (const std::string_view line : base::split(script, '\n')) {
    if (!line.starts_with(prefix)) continue;
    std::string last;
    for (const std::string_view word : base::split(line.substr(prefix.size()), ' ')) {
      if (word.empty()) continue;
      if (word.starts_with('-')) {
        last = word;
      } else if (last == "-l") {
        const auto equals = word.find('=');
        options["-l " + std::string(word.substr(0, equals))] = word.substr(equals + 1);
      } else {
        options[last] = word;
      }
    }
  }
  return options;
}

// The directives of the sites' own published scripts, option by option (ALCF's user guides and workshops).
struct Published {
  const char* name;
  const char* first_line;
  const char* directives;
  Given given;
};

const std::vector<Published> kPublished = {
    {"theta",
     "#!/bin/bash",
     "#COBALT -n 2 -t 30 -q debug-cache-quad -A physics\n"
     "#COBALT --attrs mcdram=cache:numa=quad:filesystems=home,theta-fs0\n",
     {{"nodes", "2"}, {"time", "30m"}, {"project", "physics"}}},
    {"thetagpu",
     "#!/bin/bash -l",
     "#COBALT -n 2 -t 60 -q full-node -A physics -O results/$jobid.train\n"
     "#COBALT --attrs filesystems=home,theta-fs0,grand:pubnet=true\n",
     {{"nodes", "2"}, {"time", "1h"}, {"project", "physics"}, {"folder", "results"}, {"name", "train"}}},
    {"polaris",
     "#!/bin/bash -l",
     "#PBS -l select=2:system=polaris\n#PBS -l place=scatter\n#PBS -l walltime=0:30:00\n"
     "#PBS -l filesystems=home:eagle\n#PBS -q debug\n#PBS -A physics\n",
     {{"nodes", "2"}, {"project", "physics"}}},
    {"aurora",
     "#!/bin/bash -l",
     "#PBS -l select=4\n#PBS -l place=scatter\n#PBS -l walltime=0:10:00\n#PBS -l filesystems=home:flare\n"
     "#PBS -q debug-scaling\n#PBS -A physics\n",
     {{"nodes", "4"}, {"queue", "debug-scaling"}, {"project", "physics"}}},
};

TEST(Script, DirectivesAreThoseOfThePublishedScripts) {
  for (const Published& published : kPublished) {
    const Template job_template = built_in(published.name);
    const std::string script = script_of(job_template, published.given);
    EXPECT_EQ(script.substr(0, script.find('\n')), published.first_line);
    const std::string_view prefix = directive_prefix(job_template.scheduler);
    EXPECT_EQ(options_of(script, prefix), options_of(published.directives, prefix)) << published.name;
  }
}

// MUSTER_WRITE_GOLDEN=1 job_templates_test, in this folder, writes them anew.
void compare(const std::string& file, const std::string& content) {
  if (base::env_var("MUSTER_WRITE_GOLDEN")) {
    const base::Status written = base::write_file_atomically("golden/" + file, content, 0644);
    ASSERT_TRUE(written.ok()) << written;
  }
  const auto golden = base::read_file("golden/" + file);
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ(content, *golden) << file << ": MUSTER_WRITE_GOLDEN=1 writes the golden files anew";
}

TEST(Script, GoldenFiles) {
  for (const std::string& name : template_names({})) compare(name + ".sh", script_of(built_in(name), needed(name)));
}

TEST(Script, CobaltsLinesAreContiguousFromTheSecond) {
  const std::string script = script_of(built_in("theta"), needed("theta"));
  const auto lines = base::split(script, '\n');
  std::size_t last = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("#COBALT")) last = i;
  }
  ASSERT_GT(last, 1U);
  for (std::size_t i = 1; i <= last; ++i) EXPECT_THAT(lines[i], StartsWith("#COBALT "));
  EXPECT_THAT(script, HasSubstr("make it executable"));
}

std::string refused(const std::string& name, const std::string& parameter, const std::string& value) {
  const Template job_template = built_in(name);
  Given given = needed(name);
  given.emplace_back(parameter, value);
  ScriptRequest wish;
  wish.command = {"true"};
  const auto script = render_script(with(job_template, given), wish);
  EXPECT_FALSE(script.ok()) << (script.ok() ? *script : "");
  return script.status().message();
}

TEST(Script, WhatADirectiveCannotQuoteIsRefused) {
  EXPECT_THAT(refused("polaris", "queue", "debug; rm -rf ~"),
              StartsWith("--queue 'debug; rm -rf ~' cannot stand in a line for the scheduler"));
  for (const char* value : {"a b", "$(id)", "`id`", "a'b", "a\"b", "a|b", "a&b", "a>b", "a#b", "a\\b", "a!b", "a*b",
                            "-q", "-l walltime=9:00:00", "ä"}) {
    EXPECT_THAT(refused("polaris", "queue", value), HasSubstr("cannot stand in a line for the scheduler")) << value;
    EXPECT_THAT(refused("theta", "project", value), HasSubstr("cannot stand in a line for the scheduler")) << value;
    EXPECT_THAT(refused("slurm-gpu", "name", value), HasSubstr("cannot stand in a line for the scheduler")) << value;
  }
}

TEST(Script, RequiredParametersAreAskedFor) {
  ScriptRequest wish;
  wish.command = {"true"};
  const Template polaris = built_in("polaris");
  EXPECT_EQ(render_script(Values(polaris), wish).status().message(),
            "the template polaris needs --project (The project or account that is charged.)");
}

TEST(Script, TypedOptionsComeLastAndOverrule) {
  const Template polaris = built_in("polaris");
  ScriptRequest wish;
  wish.command = {"true"};
  wish.extra = {{"--bind-to", "none"}, {"--verbose"}};
  wish.left_out = overruled_by("bind-to", "none");
  const auto script = render_script(with(polaris, needed("polaris")), wish);
  ASSERT_TRUE(script.ok());
  EXPECT_THAT(*script, HasSubstr("  --bootstrap pals \\\n  --bind-to none \\\n  --verbose \\\n  -- true\n"));
  EXPECT_THAT(*script, Not(HasSubstr("--depth")));
}

TEST(Script, VariablesThatDoNotTravelByThemselvesAreNamed) {
  const Template job_template =
      parsed("environment: {TMPDIR: /local, A: 1, XDG_CACHE_HOME: /c, CUDA_VISIBLE_DEVICES: 0}\n");
  EXPECT_THAT(script_of(job_template, {}, {"true"}),
              HasSubstr("\"$hvdrun\" \\\n  --env TMPDIR \\\n  --env XDG_CACHE_HOME \\\n"
                        "  --env CUDA_VISIBLE_DEVICES \\\n  -- true\n"));
  ScriptRequest wish;
  wish.command = {"true"};
  wish.extra = {{"--env-none"}};
  const auto script = render_script(with(job_template, {}), wish);
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(*script, HasSubstr("  --env A \\\n"));
}

TEST(Script, HelpIsNeverAnOptionOfFlux) {
  const std::string script =
      script_of(parsed("scheduler: flux\nhelp: |\n  flux: -N 100\n  # FLUX: -n 3\n  in flux: x\n"), {});
  EXPECT_THAT(script, HasSubstr("\n# Help: flux: -N 100\n# Help: # FLUX: -n 3\n# in flux: x\n"));
}

TEST(Script, CommandsBeforeAndAfter) {
  compare("with_commands.sh", script_of(parsed("scheduler: slurm\n"
                                               "help: Commands around a job.\n"
                                               "parameters:\n"
                                               "  data-set: {type: string, default: \"it's $(here)\"}\n"
                                               "modules: [use /soft/modulefiles, conda/2026]\n"
                                               "directives: [\"--nodes=2\"]\n"
                                               "launch: {bootstrap: srun}\n"
                                               "pre:\n"
                                               "  job: [mkdir -p results]\n"
                                               "  node:\n"
                                               "    - |\n"
                                               "      mkdir -p /local/data\n"
                                               "      cp \"$PARAM_DATA_SET\" /local/data\n"
                                               "post:\n"
                                               "  job: [\"echo \\\"ended with $status\\\"\"]\n"
                                               "  node: rm -rf /local/data\n"),
                                        {}, {"python3", "train it.py", "$HOME"}));
}

}  // namespace
}  // namespace muster::job_templates::script_test
