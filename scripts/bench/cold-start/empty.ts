// What Node.js itself needs to start and to end.
process.exit();
