import { inject, test } from 'vitest';
import { Random } from '../simulation/random.js';
import { ACTIONS } from '../support/re-entrancy/actions.js';
import { PLAYS, type Play } from '../support/re-entrancy/plays.js';
import { type Choice, World } from '../support/re-entrancy/world.js';

// A program may call every public method in every callback, although the client may then be in the middle of a change.
// Each program of `PLAYS` runs once for each pair of a place, where a callback runs, and an action. No wait may stall,
// and the client must be usable afterwards. An action in a listener of a signal must have the effect that it has right
// after the listener, and an action that ends nothing must have no effect on the program.

/** About how many pairs of a program are chosen at random in `npm test`. `npm run test:all` tries all pairs. */
const PAIRS = 40;
const SEED = 45;

/** Runs the program. Returns its steps with their outcomes, and what is wrong after the program. */
async function run(
  play: Play,
  choice?: Choice,
): Promise<{ steps: readonly string[]; problems: string[]; places: Set<string> }> {
  const world = new World(choice);
  try {
    await play(world);
  } catch (error) {
    world.log.push(String(error));
  }
  world.isDone = true;
  return { steps: world.log, problems: await world.problems(), places: world.places };
}

test.concurrent.for(Object.entries(PLAYS))(
  'a program with %s ends with an action in a callback as it ends with the action right after the callback',
  async ([, play], { expect }) => {
    const undisturbed = await run(play);
    expect(undisturbed.problems).toEqual([]);
    expect(undisturbed.steps.filter((step) => step.endsWith('stalled'))).toEqual([]);
    const places = [...undisturbed.places];
    const pairs = places.flatMap((place) => ACTIONS.map((action) => ({ place, ...action })));
    const random = new Random(SEED);
    const failures: string[] = [];
    for (const { place, action, isHarmless, name: what } of pairs) {
      const isStrict = place.startsWith('abort');
      const mustTry = isStrict || (!place.startsWith('unary') && ['Client.watch', 'Client.close'].includes(what));
      if (!inject('thorough') && !mustTry && random.fraction() > PAIRS / pairs.length) continue;
      const inside = await run(play, { place, when: 'inside', action });
      const problems = [...inside.problems, ...inside.steps.filter((step) => step.endsWith('stalled'))];
      if (problems.length > 0) failures.push(`${what} in ${place}: ${problems}`);
      const expected = isHarmless ? undisturbed : await run(play, { place, when: 'after', action });
      if ((isHarmless || isStrict) && String(inside.steps) !== String(expected.steps))
        failures.push(`${what} in ${place}: ${inside.steps} instead of ${expected.steps}`);
    }
    expect(failures).toEqual([]);
  },
);
