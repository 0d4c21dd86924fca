#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "cli/command.hpp"

int main(int argc, char** argv) {
  using namespace taut::cli;
  CLI::App app("Tautline: a parameter server whose workers drift only as far as you let them",
               "tautline");
  app.require_subcommand(1);
  app.footer("Example: tautline train --workers 2 --mode ssp --slack 1");
  int status = kFine;
  add_train(app, status);
  add_sweep(app, status);
  add_plan(app, status);
  add_submit(app, status);
  add_status(app, status);
  add_set_slack(app, status);
  add_checkpoint(app, status);
  add_stop(app, status);
  add_top(app, status);
  add_trace(app, status);
  add_convert(app, status);
  add_doctor(app, status);
  add_validate(app, status);
  add_test(app, status);
  add_predict(app, status);
  add_sample(app, status);
  add_export(app, status);
  add_summary(app, status);
  add_version(app, status);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a number for each kind of mistake; --help is the one that is none.
    return app.exit(error) == 0 ? kFine : kUsage;
  } catch (const std::exception& failure) {
    return fail(app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name(),
                failure.what());
  }
  return status;
}
