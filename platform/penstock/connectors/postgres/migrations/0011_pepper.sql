-- What API keys are hashed with, by its fingerprint: a gateway with another pepper would refuse everybody's key.
alter table platform add column pepper text not null default '';
